"""Four routes at a time between the tiles, at the clocks of cores that ask out of order."""

from aisrv.xcore.timed.tile_links import Link, TileLinks


def taken(links: TileLinks, opened: int, closed: int | None, tile: int = 0) -> Link:
    """A route that is open from one clock to another, as far as is known."""
    link = links.take(tile, opened, passed=0)
    assert link is not None
    link.closed = closed
    return link


def test_a_fifth_opens_when_the_first_of_four_has_closed() -> None:
    links = TileLinks()
    for closed in (400, 300, 500, 600):
        taken(links, 100, closed)
    assert taken(links, 200, 700).opened == 300
    assert taken(links, 200, 700).opened == 400


def test_a_fifth_waits_where_nobody_knows_when_one_closes() -> None:
    links = TileLinks()
    routes = [taken(links, 100, None) for _ in range(4)]
    assert links.take(0, 200, passed=0) is None
    routes[2].closed = 350
    assert taken(links, 200, None).opened == 350


def test_routes_of_a_core_that_is_ahead_do_not_hold_up_an_earlier_one() -> None:
    links = TileLinks()
    for _ in range(4):
        taken(links, 5_000, None)
    assert taken(links, 100, 200).opened == 100


def test_each_direction_has_its_own() -> None:
    links = TileLinks()
    for _ in range(4):
        taken(links, 0, None, tile=0)
    assert taken(links, 10, None, tile=1).opened == 10


def test_what_all_have_passed_is_forgotten() -> None:
    links = TileLinks()
    for _ in range(1000):
        link = links.take(0, 50, passed=100)
        assert link is not None
        link.closed = 100
    assert len(links._links[0]) == 1
