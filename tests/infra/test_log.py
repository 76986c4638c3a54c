def test_x(broker, fresh_topic):
    print(broker, fresh_topic(3))
