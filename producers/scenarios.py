"""Phone tasks that can be made up by the hundred: apps, their tools, and plans through them.

A plan is the shortest way to a goal. It reads before it writes, so that each capability that
its task names is really exercised; other ways to the same goal are as good.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

PEOPLE = ("Ada", "Bela", "Chen", "Dara", "Emil", "Farah", "Goran", "Hana")
PLACES = ("Lisbon", "Osaka", "Turin", "Quito", "Accra", "Gdansk")
TITLES = ("design review", "dentist", "school play", "one to one", "boiler service")


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call of a plan and the app's answer. `goal` marks a write that the goal needs."""

    tool: str
    arguments: dict[str, Any]
    answer: str
    goal: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task: what the user says, the apps it touches, a plan, what must hold at the end."""

    family: str
    request: str
    apps: tuple[str, ...]
    plan: tuple[Step, ...]
    capabilities: tuple[str, ...]

    @property
    def goals(self) -> list[str]:
        return [f"{step.tool} took effect" for step in self.plan if step.goal]


TOOLS = {
    "calendar": ("calendar.find_events", "calendar.create_event", "calendar.move_event"),
    "messages": ("messages.search", "messages.send"),
    "alarms": ("alarms.list", "alarms.set", "alarms.delete"),
    "contacts": ("contacts.find", "contacts.update"),
    "weather": ("weather.forecast",),
}


def scenario(random: Random) -> Scenario:
    """A task drawn at random."""
    return random.choice((_reschedule, _umbrella, _wake_up, _new_number, _tell_everybody))(random)


def _clock(random: Random) -> str:
    return f"{random.randrange(6, 22):02d}:{random.choice(('00', '15', '30', '45'))}"


def _reschedule(random: Random) -> Scenario:
    title, person, time = random.choice(TITLES), random.choice(PEOPLE), _clock(random)
    event = f"ev-{random.randrange(1000):03d}"
    return Scenario(
        "calendar",
        f"Move my {title} tomorrow to {time} and let {person} know.",
        ("calendar", "contacts", "messages"),
        (
            Step("calendar.find_events", {"query": title}, f'[{{"id":"{event}"}}]'),
            Step(
                "calendar.move_event", {"event": event, "start": time}, '{"moved":true}', goal=True
            ),
            Step("contacts.find", {"name": person}, f'[{{"id":"c-{person.lower()}"}}]'),
            Step(
                "messages.send",
                {"to": f"c-{person.lower()}", "text": f"The {title} is now at {time}."},
                '{"sent":true}',
                goal=True,
            ),
        ),
        ("information_acquisition", "tool_routing", "argument_grounding", "multi_step"),
    )


def _umbrella(random: Random) -> Scenario:
    place, time = random.choice(PLACES), _clock(random)
    return Scenario(
        "weather",
        f"If it rains in {place} tomorrow, remind me at {time} to take an umbrella.",
        ("weather", "alarms"),
        (
            Step("weather.forecast", {"place": place, "day": "tomorrow"}, '{"rain":0.8}'),
            Step("alarms.set", {"time": time, "label": "umbrella"}, '{"id":"al-1"}', goal=True),
        ),
        ("information_acquisition", "argument_grounding", "multi_step"),
    )


def _wake_up(random: Random) -> Scenario:
    old, new = _clock(random), _clock(random)
    return Scenario(
        "alarms",
        f"I get up at {new} from now on, not at {old}.",
        ("alarms",),
        (
            Step("alarms.list", {}, f'[{{"id":"al-7","time":"{old}"}}]'),
            Step("alarms.set", {"time": new}, '{"id":"al-8"}', goal=True),
            Step("alarms.delete", {"id": "al-7"}, '{"deleted":true}', goal=True),
        ),
        ("information_acquisition", "argument_grounding", "state_tracking"),
    )


def _new_number(random: Random) -> Scenario:
    person, number = random.choice(PEOPLE), f"555-01{random.randrange(100):02d}"
    return Scenario(
        "contacts",
        f"{person} sent me a new number, please keep it.",
        ("messages", "contacts"),
        (
            Step("messages.search", {"from": person, "text": "number"}, f'["{number}"]'),
            Step("contacts.find", {"name": person}, f'[{{"id":"c-{person.lower()}"}}]'),
            Step(
                "contacts.update",
                {"id": f"c-{person.lower()}", "phone": number},
                '{"updated":true}',
                goal=True,
            ),
        ),
        ("information_acquisition", "argument_grounding", "multi_step", "recovery"),
    )


def _tell_everybody(random: Random) -> Scenario:
    title, people = random.choice(TITLES), random.sample(PEOPLE, 3)
    time = _clock(random)
    sends = tuple(
        Step(
            "messages.send",
            {"to": f"c-{person.lower()}", "text": f"{title} at {time}, see you there."},
            '{"sent":true}',
            goal=True,
        )
        for person in people
    )
    return Scenario(
        "messages",
        f"Put {title} into my calendar at {time} and invite {', '.join(people)}.",
        ("calendar", "messages"),
        (
            Step(
                "calendar.create_event",
                {"title": title, "start": time},
                '{"id":"ev-1"}',
                goal=True,
            ),
            *sends,
        ),
        ("tool_routing", "argument_grounding", "state_tracking", "verified_completion"),
    )
