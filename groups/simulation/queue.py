# Compiled by mypyc: see setup.py.
"""SimulatedQueue: what a queue would have done with recorded arrivals under another policy.

The strategies are the broker's own. The queue around them is simplified to these rules:

- a group is a lane, a FIFO of waiting messages. Of the heads that some worker may take, the oldest
  goes first;
- a lane that nobody owns goes, with its head, to the willing worker with the least load;
- the gate: while messages of a lane are unsettled, only the worker that holds them may take more.
  So a lane whose owner changes waits until it has drained;
- a worker that leaves returns what it held to its place.

A worker holds up to `credit` messages and works on one at a time, each for as long as was
recorded. One worker joins after a third of the arrivals' time. The first worker leaves after two
thirds. `tests/groups/simulation/test_queue.py` runs the same arrivals through the real queue and
compares.

Millions of messages go through this for every scenario, so nothing is allocated for a message. A
message is a number, and a `MessageList` links numbers through one table of followers. A strategy is
asked only about a lane without an owner.
"""

from __future__ import annotations

from heapq import heappop, heappush

from mypy_extensions import mypyc_attr

from covey.groups.simulation.consumers import ReadyLanes, WorkerPool
from covey.groups.simulation.load import SAMPLE_EVERY, UNGROUPED, Figures, Load, Result
from covey.groups.simulation.parts import NEVER, Lane, Worker, is_older
from covey.groups.strategy import FREE, GroupStrategy


@mypyc_attr(allow_interpreted_subclasses=True)
class SimulatedQueue:
    """One queue under one policy."""

    def __init__(self, load: Load, strategy: GroupStrategy, *, credit: int, speed: float) -> None:
        self.times = [time / speed for time in load.times]
        self.services = load.services
        self.groups = load.groups
        self.numbers = load.numbers
        self.strategy = strategy
        self.wants_delivered = strategy.wants_delivered
        self.credit = credit
        self.now = 0.0
        self.followers = [0] * len(load.times)
        self.lanes = [Lane(name, self.followers) for name in load.names]
        self.ungrouped = self.lanes[UNGROUPED]
        self.ready_lanes = ReadyLanes(self.lanes, load.groups)
        self.pool = WorkerPool(strategy, credit, self.followers)
        self.starts = 0
        self.turn = 0
        self.phase = 0
        self.figures = Figures()

    def play(self, workers: int) -> Result:
        """Play all arrivals to the end."""
        times = self.times
        count = len(times)
        span = times[-1] if count else 0.0
        for _ in range(workers):
            self.join()
        at = 0
        while True:
            arrival = times[at] if at < count else NEVER
            worker = self.pool.first_to_finish()
            finish = worker.finishes_at
            if arrival == NEVER and finish == NEVER:
                return self.figures.result(count, self.pool.everybody, self.now)
            if self.phase < 2 and span * (self.phase + 1) / 3 <= min(arrival, finish):
                self.now = span * (self.phase + 1) / 3
                self.change()
            elif arrival <= finish:
                self.now = arrival
                self.arrive(at)
                at += 1
            else:
                self.now = finish
                self.finish(worker)

    def change(self) -> None:
        """Let a worker join the first time, and the first worker leave the second time."""
        self.phase += 1
        if self.phase == 1:
            self.join()
        else:
            self.leave_first()

    def arrive(self, message: int) -> None:
        """Put a message on the queue."""
        number = self.groups[message]
        lane = self.lanes[number]
        lane.messages.append(message)
        if number == UNGROUPED:
            willing = self.pool.least_loaded()
            if willing is not None:
                self.fill(willing)
            return
        if not lane.is_open:
            lane.is_open = True
            self.strategy.opened(lane.name)
        if lane.messages.count == 1:
            self.place(lane)

    def place(self, lane: Lane) -> None:
        """Offer a lane's head to whoever may take it."""
        if lane.owner == FREE:
            self.own(lane, self.strategy.owner(lane.name))
        worker = self.pool.present[lane.owner] if lane.owner else self.pool.least_loaded()
        if worker is not None and self.is_next(lane, worker):
            self.deliver(lane, worker)
            return
        self.list_head(lane)
        if worker is not None:
            self.fill(worker)

    def own(self, lane: Lane, owner: int) -> None:
        """Note a lane's owner, and how many lanes each worker has: new ones go to the fewest."""
        everybody = self.pool.everybody
        if lane.owner != FREE:
            everybody[lane.owner - 1].lanes -= 1
        if owner != FREE:
            everybody[owner - 1].lanes += 1
        lane.owner = owner

    def is_next(self, lane: Lane, worker: Worker) -> bool:
        """Return True if the worker can take this lane and nothing else, so no list is needed."""
        return (
            lane.owner == worker.id
            and lane.messages.count == 1
            and not worker.ready
            and not self.ready_lanes.free
            and not self.ungrouped.messages.count
            and worker.held.count < self.credit
            and (lane.unsettled == 0 or lane.holder == worker.id)
        )

    def list_head(self, lane: Lane) -> None:
        """List a lane's head for whoever may take it, unless the lane has to drain."""
        if lane.owner == FREE:
            self.own(lane, self.strategy.owner(lane.name))
        lane.is_draining = lane.unsettled > 0 and lane.holder != lane.owner
        if lane.messages.count and not lane.is_draining:
            self.ready_lanes.add(lane, self.pool.present[lane.owner] if lane.owner else None)

    def fill(self, worker: Worker) -> None:
        """Deliver, the oldest first, while this worker has credit and may take something."""
        while worker.held.count < self.credit:
            own = self.ready_lanes.best_ready(worker) if worker.ready else None
            free = self.ready_lanes.best_free() if self.ready_lanes.free else None
            oldest = own if free is None or is_older(own, free) else free
            if self.ungrouped.messages.count and not is_older(oldest, self.ungrouped):
                self.deliver(self.ungrouped, self.pool.least_served(worker))
            elif oldest is None:
                return
            elif oldest is own:
                heappop(worker.ready)
                self.deliver(own, worker)
                if own.messages.count:
                    heappush(worker.ready, own.messages.first)
            else:
                taker = self.pool.least_loaded() or worker
                older = self.ready_lanes.best_ready(taker) if taker is not worker else None
                if is_older(older, oldest):
                    self.fill(taker)  # its own lane has an older head
                else:
                    self.take_free(oldest, taker)

    def fill_all(self) -> None:
        """Deliver whatever can be delivered."""
        for worker in self.pool.present.values():
            self.fill(worker)

    def take_free(self, lane: Lane, worker: Worker) -> None:
        """Give a lane that nobody owns, and its head, to a worker."""
        heappop(self.ready_lanes.free)
        neighbours = self.strategy.took(lane.name, worker.id)
        self.strategy.evictions()
        self.own(lane, worker.id)
        self.turn += 1
        worker.assigned = self.turn
        self.deliver(lane, worker)
        if lane.messages.count:
            heappush(worker.ready, lane.messages.first)
        for name in neighbours:
            self.ask_again(self.lanes[self.numbers[name]])
        if neighbours:
            self.fill(worker)

    def deliver(self, lane: Lane, worker: Worker) -> None:
        """Deliver a lane's head."""
        message = lane.messages.pop()
        lane.unsettled += 1
        lane.holder = worker.id
        if lane is not self.ungrouped:
            self.note_worker(lane, worker.id)
        wait = self.now - self.times[message]
        self.figures.wait_sum += wait
        if message % SAMPLE_EVERY == 0:
            self.figures.sample(wait, self.strategy.tracked())
        worker.held.append(message)
        if worker.held.count == 1:
            self.start(worker)

    def note_worker(self, lane: Lane, worker: int) -> None:
        """Count a group that changes workers."""
        if self.wants_delivered:
            self.strategy.delivered(lane.name)
        if lane.last_worker != worker:
            if lane.last_worker != FREE:
                self.figures.move(lane.name, self.phase)
            lane.last_worker = worker

    def start(self, worker: Worker) -> None:
        """Let a worker begin with the first message that it holds."""
        self.starts += 1
        worker.started = self.starts
        worker.finishes_at = self.now + self.services[worker.held.first]

    def finish(self, worker: Worker) -> None:
        """Settle the message that a worker worked on; its lane and the worker go on."""
        message = worker.held.pop()
        worker.served += 1
        worker.finishes_at = NEVER
        if worker.held.count:
            self.start(worker)
        number = self.groups[message]
        if number != UNGROUPED:
            self.settle(self.lanes[number], message)
        self.fill(worker)

    def settle(self, lane: Lane, message: int) -> None:
        """Take a finished message off its lane."""
        if message < lane.done:
            self.figures.order_lost += 1
        lane.done = message
        lane.unsettled -= 1
        if lane.unsettled:
            return
        lane.holder = FREE
        was_draining = lane.is_draining
        if lane.owner != FREE and self.strategy.drained(lane.name):
            self.own(lane, FREE)
        if not lane.messages.count:
            lane.is_open = False
            self.own(lane, FREE)
            self.strategy.vanished(lane.name)
        elif was_draining or lane.owner == FREE:
            self.place(lane)

    def ask_again(self, lane: Lane) -> None:
        """Ask the strategy about one lane, which may have another owner now."""
        if not lane.is_open:
            return
        owner = self.strategy.owner(lane.name)
        if owner != lane.owner:
            self.own(lane, owner)
            self.list_head(lane)

    def join(self) -> None:
        """Let one more worker in."""
        worker = self.pool.join(self.now)
        if self.strategy.joined(worker.id, 1):
            for lane in self.lanes:
                self.ask_again(lane)
        self.fill_all()

    def leave_first(self) -> None:
        """Let the first worker go, if another stays; what it held returns to its place."""
        leaver = self.pool.leave_first(self.now)
        if leaver is None:
            return
        self.strategy.left(leaver.id)
        self.figures.redelivered += leaver.held.count
        touched = {lane.name: lane for lane in self.lanes if lane.owner == leaver.id}
        held = [leaver.held.pop() for _ in range(leaver.held.count)]
        for message in reversed(held):
            lane = self.lanes[self.groups[message]]
            lane.messages.put_back(message)
            lane.unsettled -= 1
            if lane is not self.ungrouped:
                touched[lane.name] = lane
        for lane in touched.values():
            if lane.unsettled == 0:
                lane.holder = FREE
                if lane.owner == leaver.id:
                    self.strategy.drained(lane.name)
            if lane.owner == leaver.id:
                self.own(lane, FREE)
        for lane in touched.values():
            self.list_head(lane)
        self.fill_all()
