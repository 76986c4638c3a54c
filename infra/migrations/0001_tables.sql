-- Tables that are a function of the log alone. A row is what one event says: the first copy
-- of an event has the highest version and stays. Keys hold identities only, there is no
-- partition, and no column tells when or from which offset a row was written, so that any
-- number of copies in any order comes to the same rows.

CREATE TABLE IF NOT EXISTS event_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    kind LowCardinality(String),
    group_id String,
    correlation_id String,
    causation_id String,
    occurred_at DateTime64(6, 'UTC'),
    recorded_at DateTime64(6, 'UTC'),
    producer LowCardinality(String),
    producer_version LowCardinality(String),
    policy LowCardinality(String),
    harness LowCardinality(String),
    schedule LowCardinality(String),
    action LowCardinality(String),
    observation LowCardinality(String),
    tool LowCardinality(String),
    call_id String,
    error_code LowCardinality(String),
    latency_us Nullable(UInt64),
    output_tokens Nullable(UInt64),
    text_length UInt32,
    body String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS episode_facts
(
    tenant LowCardinality(String),
    group_id String,
    episode_id String,
    fold LowCardinality(String),
    task_id String,
    valid Bool,
    invalid_reason LowCardinality(String),
    success Bool,
    progress Float64,
    cost Float64,
    steps UInt32,
    tool_calls UInt32,
    output_tokens Nullable(UInt64),
    errors UInt32,
    termination LowCardinality(String),
    started_at Nullable(DateTime64(6, 'UTC')),
    ended_at Nullable(DateTime64(6, 'UTC')),
    last_seq UInt64,
    verification_id String,
    policy LowCardinality(String),
    harness LowCardinality(String),
    schedule LowCardinality(String),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, group_id, episode_id, fold)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS group_facts
(
    tenant LowCardinality(String),
    group_id String,
    fold LowCardinality(String),
    task_id String,
    regime LowCardinality(String),
    size UInt32,
    valid UInt32,
    successes UInt32,
    success_rate Float64,
    reward_mean Float64,
    reward_std Float64,
    anchor Float64,
    epsilon Float64,
    progress_std Float64,
    closed_by LowCardinality(String),
    capabilities Array(String),
    split LowCardinality(String),
    closed_at Nullable(DateTime64(6, 'UTC')),
    p_low Float64,
    p_high Float64,
    lambda_prog Float64,
    lambda_eff Float64,
    cost_unit LowCardinality(String),
    cost_budget Float64,
    policy LowCardinality(String),
    harness LowCardinality(String),
    schedule LowCardinality(String),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, group_id, fold)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS member_facts
(
    tenant LowCardinality(String),
    group_id String,
    episode_id String,
    fold LowCardinality(String),
    position UInt32,
    task_id String,
    regime LowCardinality(String),
    capabilities Array(String),
    valid Bool,
    invalid_reason LowCardinality(String),
    success Bool,
    progress Float64,
    cost Float64,
    reward Float64,
    reward_term Float64,
    advantage Float64,
    output_tokens Nullable(UInt64),
    tool_calls UInt32,
    steps UInt32,
    policy LowCardinality(String),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, group_id, episode_id, fold)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS competence_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    group_id String,
    occurred_at DateTime64(6, 'UTC'),
    policy LowCardinality(String),
    scope LowCardinality(String),
    name String,
    episodes UInt64,
    successes UInt64,
    success_rate Float64,
    regime LowCardinality(String),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS record_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    occurred_at DateTime64(6, 'UTC'),
    group_id String,
    policy LowCardinality(String),
    record_id String,
    episode_id String,
    task_id String,
    outcome LowCardinality(String),
    reasons Array(String),
    capabilities Array(String),
    success Bool,
    backend LowCardinality(String),
    fidelity LowCardinality(String),
    masked_seqs Array(UInt64),
    supervised_turns UInt32,
    first_event_id String,
    last_event_id String,
    evidence Array(String),
    content_digest String,
    failure_kind LowCardinality(String),
    split LowCardinality(String),
    object_key String,
    object_sha256 String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS policy_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    occurred_at DateTime64(6, 'UTC'),
    policy_version String,
    parent_version String,
    update UInt64,
    architecture LowCardinality(String),
    parameters UInt64,
    batch_ids Array(String),
    object_key String,
    object_sha256 String,
    object_bytes UInt64,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS batch_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    occurred_at DateTime64(6, 'UTC'),
    batch_id String,
    kind LowCardinality(String),
    policy_version String,
    trained_tokens UInt64,
    digest String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS batch_row_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    position UInt32,
    batch_id String,
    episode_id String,
    group_id String,
    source_event_id String,
    advantage Float64,
    weight Float64,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq, position)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS update_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    occurred_at DateTime64(6, 'UTC'),
    batch_id String,
    kind LowCardinality(String),
    from_policy_version String,
    to_policy_version String,
    update UInt64,
    loss Float64,
    gradient_norm Float64,
    clipped_share Float64,
    trained_tokens UInt64,
    groups UInt32,
    episodes UInt32,
    groups_without_advantage UInt32,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS dead_letter_facts
(
    tenant LowCardinality(String),
    stream_id String,
    seq UInt64,
    recorded_at DateTime64(6, 'UTC'),
    reason LowCardinality(String),
    detail String,
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    position Nullable(UInt32),
    raw_bytes UInt64,
    object_key String,
    refused_by LowCardinality(String),
    record_at Nullable(DateTime64(6, 'UTC')),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, stream_id, seq)
SETTINGS non_replicated_deduplication_window = 1000;

-- What follows is about the reading of the log, not about what it says: it is not compared.

CREATE TABLE IF NOT EXISTS positions
(
    consumer LowCardinality(String),
    topic LowCardinality(String),
    partition Int32,
    next_offset Int64
)
ENGINE = ReplacingMergeTree(next_offset)
ORDER BY (consumer, topic, partition);

CREATE TABLE IF NOT EXISTS lag_facts
(
    consumer LowCardinality(String),
    topic LowCardinality(String),
    partition Int32,
    position Int64,
    end Int64,
    seconds_behind Float64,
    observed_at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(observed_at)
ORDER BY (consumer, topic, partition);
