"""Limits in random runs: what is counted is what there is, and nobody silently misses a queue.

Few users with many subscriptions, by pattern and by name, come and go in small portions, while
queues are made, deleted and swept away and the limits change. After each event the counts are
compared with the truth. In the end each subscription that was not ended reads every queue that it
asked for, and one that was ended was told so once.
"""

from __future__ import annotations

import os
from random import Random

from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.host.subscription import Subscription
from covey.core.management.reload import reconfigure
from covey.core.model.consumer import Consumer, Window
from covey.core.naming.destination import Kind
from covey.core.naming.pattern import Pattern
from tests.core.double import Person, Room, places
from tests.core.host.counted import check_counts
from tests.core.support import selector_of
from tests.doubles import Reader
from tests.properties.seeds import first_seed

SEEDS = int(os.environ.get("COVEY_SEQUENCES", "2000")) // 10
EVENTS = 60
QUEUES = 12
WISHES = (
    "/queue/q.*",
    "/queue/**",
    "/queue/q.1*",
    "/queue/q.1",
    "/queue/q.1,/queue/q.2,/queue/q.*",
    "/queue/q.3,/topic/t.*",
    "/dsub/d",
)
SELECTORS = ("", "", "", "name = '1'", "name = '2'", "name = '3'")
EVENT_NAMES = ("enter", "leave", "read", "read", "read", "end", "send", "send", "delete", "sweep")
MORE_NAMES = ("limit", "go_on", "go_on", "obey", "obey")


class Wish:
    """A subscription, and what its client was told."""

    def __init__(self, person: Person, name: str, text: str, selector: str, dice: Random) -> None:
        self.person = person
        self.places = places(text)
        self.told: list[RefusedError] = []
        self.is_browser = text != WISHES[5] and dice.random() < 0.15
        self.window = Window(dice.choice((0, 1000)))
        self.selector = selector_of(selector)
        self.subscription = Subscription(person.session, name, self.window, self.make)
        self.subscription.lost = self.told.append

    def make(self) -> Consumer:
        reader = Reader(self.window, self.person.session)
        reader.selector = self.selector
        reader.is_browser = self.is_browser
        reader.browse_ends = False
        return reader


class Crowd(Room):
    """A broker with tiny limits, and what its users do."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        super().__init__(limits=self._limits())
        self.people: list[Person] = []
        self.wishes: list[Wish] = []  # those that are open, as their clients know it
        self.names = 0
        self.ended = 0  # subscriptions that the broker has ended
        keeper = self.enter("keeper").session
        self.broker.make_durable(keeper, "d", places("/topic/t.*"), None, self.now)

    def _limits(self) -> dict[str, object]:
        return {
            "consumers_max": self.dice.choice((8, 30, 1000)),
            "consumers_per_user_max": self.dice.choice((3, 10, 1000)),
            "selectors_per_queue_max": self.dice.choice((2, 64)),
            "work_portion": self.dice.choice((1, 2, 5, 1000)),
        }

    def on_enter(self) -> None:
        if len(self.people) < 8:
            self.people.append(self.enter(self.dice.choice(("ann", "bob"))))

    def on_leave(self) -> None:
        if self.people:
            self._drop(self.dice.choice(self.people))

    def on_read(self) -> None:
        if not self.people:
            return
        self.names += 1
        text, selector = self.dice.choice(WISHES), self.dice.choice(SELECTORS)
        wish = Wish(self.dice.choice(self.people), str(self.names), text, selector, self.dice)
        try:
            self.broker.subscribe(
                wish.person.session,
                wish.subscription,
                wish.places,
                self.now,
                is_browser=wish.is_browser,
            )
        except RefusedError:
            assert not wish.told
        else:
            self.wishes.append(wish)

    def on_end(self) -> None:
        if self.wishes:
            self._end(self.dice.choice(self.wishes))

    def on_obey(self) -> None:
        """Do what a protocol does once the broker has ended a subscription."""
        for wish in [wish for wish in self.wishes if wish.told]:
            if wish in self.wishes and self.dice.random() < 0.5:
                self._end(wish)
            elif wish in self.wishes:
                self._drop(wish.person)

    def on_send(self) -> None:
        """Send to a queue or a topic, which may be new: its maker is never refused."""
        if self.people:
            name = f"{self.dice.choice(('queue/q', 'queue/q', 'topic/t'))}.{self._number()}"
            self.dice.choice(self.people).send(f"/{name}", str(self.dice.randrange(4)))

    def on_delete(self) -> None:
        """Delete a queue; as protocols do, its readers' subscriptions end."""
        name = f"q.{self._number()}"
        queue = self.broker.host.queues.get(name)
        if queue is not None:
            reading = [wish for wish in self.wishes if queue in wish.subscription.consumers]
            self.broker.host.delete_queue(name, "gone")
            for wish in reading:
                self._end(wish)

    def on_sweep(self) -> None:
        self.wait(self.dice.choice((1.0, 400.0)))

    def on_limit(self) -> None:
        changed = Settings.model_validate({"broker": self._limits()})
        reconfigure([self.broker], changed, self.now)

    def on_go_on(self) -> None:
        self.broker.go_on(self.now)

    def finish(self) -> None:
        """Do all that is under way, and end what the broker has ended."""
        while True:
            self.broker.go_on(self.now)
            check_counts(self.broker)
            ended = [wish for wish in self.wishes if wish.told]
            for wish in ended:
                self._end(wish)
            if not (ended or self.broker.jobs.is_any or self.broker.turns.is_any_dirty):
                return

    def judge(self) -> None:
        """Look whether everybody reads what they asked for, once."""
        host = self.broker.host
        for wish in self.wishes:
            read = [source.name for source in wish.subscription.consumers]
            assert len(read) == len(set(read))
            for place in wish.places:
                if place.kind is Kind.QUEUE and place.is_pattern:
                    pattern = Pattern(place)
                    meant = [name for name in host.queues if pattern.matches(name)]
                    assert set(meant) <= set(read), f"{place}: {meant} of which {read}"
        assert not any(queue.suspended for queue in host.all_queues())
        patterns = sum(len(wish.subscription.patterns) for wish in self.wishes)
        assert host.patterns == patterns

    def _drop(self, person: Person) -> None:
        self.people.remove(person)
        self.wishes = [wish for wish in self.wishes if wish.person is not person]
        self.broker.drop(person.session, self.now)

    def _end(self, wish: Wish) -> None:
        assert len(wish.told) <= 1
        self.ended += len(wish.told)
        self.wishes.remove(wish)
        self.broker.unsubscribe(wish.person.session, wish.subscription.name, self.now)

    def _number(self) -> int:
        return self.dice.randrange(QUEUES)


def play(seed: int) -> Crowd:
    """Play one run."""
    crowd = Crowd(seed)
    try:
        for name in crowd.dice.choices((*EVENT_NAMES, *MORE_NAMES), k=EVENTS):
            getattr(crowd, f"on_{name}")()
            check_counts(crowd.broker)
        crowd.finish()
        crowd.judge()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    return crowd


def test_what_is_counted_is_what_there_is_and_nobody_misses_a_queue() -> None:
    ended = 0
    for seed in range(first_seed(), first_seed() + SEEDS):
        crowd = play(seed)
        ended += crowd.ended
        while crowd.people:
            crowd.on_leave()
        crowd.finish()
        assert crowd.broker.host.consumers.count == 0, f"seed {seed}"
    assert ended > SEEDS // 10
