"""Random programs for channel ends: which ends there are, what each core does, and in which order."""

from dataclasses import dataclass, field
from random import Random

from tests.support.oracles.substrate.draws import Op, pair, request, single, some, word_of

Turn = int | tuple[str, int]
"""The core that begins its next verb, or ("cancel", core)."""


@dataclass
class Program:
    """What runs on a node; ends and cores are numbered from 0."""

    destinations: list[int]
    owners: list[int]
    """The core that uses each end."""
    cores: list[list[Op]]
    tiles: list[int]
    """Of each end."""
    core_tiles: list[int]
    as_cores: bool = True
    """Whether cores of the node run it, or tasks outside of it, which may use any tile's ends."""
    late: frozenset[int] = frozenset()
    """Ends that nobody has at first."""
    turns: list[Turn] = field(default_factory=list)


def _shuffled_owners(dice: Random, ends: int, cores: int) -> list[int]:
    owners = [end if end < cores else dice.randrange(cores) for end in range(ends)]
    dice.shuffle(owners)
    return owners


def _destinations(dice: Random, ends: int) -> list[int]:
    """Mostly pairs; else any end, and one above all."""
    if dice.random() < 0.3:
        hub = dice.randrange(ends)
        return [dice.choice((dice.randrange(ends), hub)) for _ in range(ends)]
    order = dice.sample(range(ends), ends)
    destinations = [dice.randrange(ends)] * ends
    for left, right in zip(order[::2], order[1::2], strict=False):
        destinations[left], destinations[right] = right, left
    return destinations


def any_program(dice: Random) -> Program:
    """Servers with their clients, verbs that match, and any others; verbs are cancelled, too."""
    ends = dice.randint(2, 7)
    cores = dice.randint(1, min(6, ends))
    owners = _shuffled_owners(dice, ends, cores)
    core_tiles = [dice.randrange(2) for _ in range(cores)]
    as_cores = dice.random() < 0.5
    stray = dice.random() < 0.1  # ends of another tile than their core's
    tiles = [dice.randrange(2) if stray else core_tiles[owner] for owner in owners]
    lateness = dice.choice((0, 0, 0.05, 0.3))
    late = frozenset(end for end in range(ends) if dice.random() < lateness)
    program = Program(
        _destinations(dice, ends), owners, [[] for _ in range(cores)], tiles, core_tiles, as_cores, late
    )
    server = dice.randrange(cores) if dice.random() < 0.5 else None
    _fill(dice, program, server)
    calm = dice.random() < 0.4
    count = sum(map(len, program.cores)) + 10
    program.turns = [
        dice.randrange(cores) if calm or dice.random() < 0.87 else ("cancel", dice.randrange(cores))
        for _ in range(count)
    ]
    if server is not None and dice.random() < 0.7:
        program.turns[:0] = [server] * len(program.cores[server])
    return program


def _fill(dice: Random, program: Program, server: int | None) -> None:
    ends = range(len(program.owners))
    served = {program.destinations[end] for end in ends if program.owners[end] == server}
    loyal = dice.random()  # how often a client calls
    for core, ops in enumerate(program.cores):
        mine = [end for end in ends if program.owners[end] == core]
        if core == server:
            ops += [single(dice, dice.choice(mine), mine, len(ends)) for _ in range(dice.choice((0, 0, 1)))]
            ops.append(("serve", tuple(dice.sample(mine, len(mine)))))
            continue
        goal = dice.randint(2, 12)
        while len(ops) < goal:
            end = dice.choice(mine)
            other = program.destinations[end]
            if end in program.late and dice.random() < 0.25:
                ops.append(("allocate", end, other))
            elif other in program.late and dice.random() < 0.2:
                ops.append(("outuchar", end, 1))  # opens a route to nobody
            elif end in served and dice.random() < 0.4 + loyal:
                ops.append(request(dice, end))
            elif (
                dice.random() < 0.35
                and program.owners[other] not in (server, core)
                and program.destinations[other] == end
            ):
                here, there = pair(dice, end, other)
                ops += here
                program.cores[program.owners[other]] += there
            else:
                ops.append(single(dice, end, mine, len(ends)))


def stream_program(dice: Random) -> Program:
    """Routes stay open and buffers run empty; mostly the receiver waits before the tokens come."""
    pairs = dice.randint(1, 3)
    receivers = dice.choice((1, pairs))
    owners = [pairs + i // 2 % receivers if i % 2 else i // 2 for i in range(2 * pairs)]
    core_tiles = [dice.randrange(2) for _ in range(pairs + receivers)]
    program = Program(
        destinations=[end ^ 1 for end in range(2 * pairs)],
        owners=owners,
        cores=[[] for _ in core_tiles],
        tiles=[core_tiles[owner] for owner in owners],
        core_tiles=core_tiles,
        as_cores=dice.random() < 0.5,
    )
    for _ in range(dice.randint(4, 22)):
        _send_on(dice, program, 2 * dice.randrange(pairs))
    return program


def _send_on(dice: Random, program: Program, end: int) -> None:
    sends: list[Op]
    takes: list[Op]
    other = end + 1
    sends, takes = dice.choice(
        (
            ([("outuint", end, word_of(dice))], [("inuint", other)]),
            ([("outuchar", end, 7)], [("inuchar", other)]),
            ([("outbytes", end, b"abcd")], [("inuint", other)]),
            ([("outuint", end, 9), ("outct", end, 1)], [("inuint", other), ("chkct", other, 1)]),
            ([("outct", end, 1)], [("chkct", other, 1)]),
            ([("outct", end, 3)], [("inct", other)]),
            ([("outct", end, 2)], []),
            pair(dice, end, other),
        )
    )
    sender, receiver = program.owners[end], program.owners[other]
    mine = [number for number, owner in enumerate(program.owners) if owner == receiver]
    if takes and dice.random() < 0.6:
        first: tuple[Op, ...] = (
            ("select", tuple(dice.sample(mine, len(mine)))),
            ("select", (other,)),
            ("select_or_default", (other,)),
            ("testct", other),
        )
        takes = [dice.choice(first), *takes]
    program.cores[sender] += sends
    program.cores[receiver] += takes
    cancels: list[Turn] = [("cancel", receiver)] if dice.random() < 0.1 else []
    first_takes = min(len(takes), dice.randrange(2))
    program.turns += [
        *[receiver] * first_takes,
        *cancels,
        *[sender] * len(sends),
        *[receiver] * (len(takes) - first_takes),
    ]


def matching_program(dice: Random) -> Program:
    """Each end has one sender, and what it takes is what that sends: it has one outcome."""
    pairs = dice.randint(1, 3)
    count = dice.randint(2, 2 * pairs)
    owners = [dice.randrange(count) for _ in range(2 * pairs)]
    core_tiles = [dice.randrange(2) for _ in range(count)]
    cores: list[list[Op]] = [[] for _ in range(count)]
    for _ in range(dice.randint(1, 8)):
        end = dice.randrange(2 * pairs)
        sends, takes = pair(dice, end, end ^ 1)
        cores[owners[end]] += sends
        cores[owners[end ^ 1]] += takes
    return Program(
        [end ^ 1 for end in range(2 * pairs)],
        owners,
        cores,
        [core_tiles[owner] for owner in owners],
        core_tiles,
    )


def contended_program(dice: Random) -> Program:
    """Packets of several senders to the same ends, which take about as many: the order of claims is open."""
    ends = dice.randint(2, 5)
    count = dice.randint(1, min(4, ends))
    owners = _shuffled_owners(dice, ends, count)
    core_tiles = [dice.randrange(2) for _ in range(count)]
    hub = dice.randrange(ends)
    cores: list[list[Op]] = [[] for _ in range(count)]
    for core, ops in enumerate(cores):
        mine = [end for end, owner in enumerate(owners) if owner == core]
        for _ in range(dice.randint(1, 3)):
            end = dice.choice(mine)
            if dice.random() < 0.5:
                ops += [("outbytes", end, dice.randbytes(dice.choice((1, 4, 9))))] * dice.randint(0, 2)
                ops.append(("outct", end, dice.choice((1, 1, 1, 1, 2, 3))))
            else:
                ops += [("select", some(dice, mine))] * dice.choice((0, 0, 1))
                ops += [
                    (
                        *dice.choice(
                            (("inuint", end), ("inuchar", end), ("chkct", end, 1), ("inbytes", end, 5))
                        ),
                    )
                    for _ in range(dice.randint(1, 3))
                ]
    destinations = [dice.choice((dice.randrange(ends), hub)) for _ in range(ends)]
    return Program(destinations, owners, cores, [core_tiles[owner] for owner in owners], core_tiles)


def served_program(dice: Random) -> Program:
    """Servers and their clients, and sometimes one that interferes."""
    servers, clients = dice.choice((1, 1, 2)), dice.randint(1, 3)
    destinations: list[int] = []
    owners: list[int] = []
    cores: list[list[Op]] = [[] for _ in range(servers + clients)]
    for client in range(servers, servers + clients):
        server = dice.randrange(servers)
        end = len(destinations)
        destinations += [end + 1, end]
        owners += [client, server]
        cores[client] += [request(dice, end) for _ in range(dice.randint(1, 4 - clients))]
    if dice.random() < 0.3:
        cores[-1].insert(dice.randrange(len(cores[-1]) + 1), ("outct", len(destinations), 1))
        destinations.append(dice.randrange(len(destinations)))
        owners.append(len(cores) - 1)
    for server in range(servers):
        if ends := tuple(end for end, owner in enumerate(owners) if owner == server):
            cores[server].append(("serve", ends))
    core_tiles = [dice.randrange(2) for _ in cores]
    return Program(destinations, owners, cores, [core_tiles[owner] for owner in owners], core_tiles)
