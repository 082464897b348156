"""When a client tries again, where, how soon and for how long."""

from hypothesis import given
from hypothesis import strategies as st

from client.patience import Attempts, Patience
from services.local.restarts import PAUSE_MAX_S, STEADY_S, Restarts

PATIENCE = Patience(deadline_s=10.0, pause_first_s=0.1, pause_max_s=1.0, retry_after_max_s=4.0)


def attempts(addresses, *, first=0, patience=PATIENCE):
    return Attempts(patience, addresses, first=first, now_s=100.0)


def fail(tries, now_s=100.0, *, may_have_arrived=False, was_connected=False, retry_after_s=None):
    return tries.failed(
        now_s,
        chance=1.0,
        may_have_arrived=may_have_arrived,
        was_connected=was_connected,
        retry_after_s=retry_after_s,
    )


def test_the_pause_doubles_up_to_its_cap():
    pauses = [PATIENCE.pause_s(rounds, chance=1.0) for rounds in (1, 2, 3, 4, 5, 500)]

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@given(st.integers(1, 1000), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_chance_spreads_over_half_the_pause_and_nothing_exceeds_the_caps(rounds, chance, asked):
    pause = PATIENCE.pause_s(rounds, chance=chance, retry_after_s=asked)
    granted = min(asked or 0.0, 4.0)

    assert granted <= pause <= granted + 1.0
    assert pause >= PATIENCE.pause_s(rounds, chance=1.0) / 2


def test_all_addresses_are_asked_before_the_first_pause():
    tries = attempts(3, first=1)

    assert tries.address == 1
    assert fail(tries) == 0.0
    assert tries.address == 2
    assert fail(tries) == 0.0
    assert tries.address == 0
    assert fail(tries) == 0.1
    assert tries.address == 1


def test_a_cms_that_asks_for_time_is_given_it():
    tries = attempts(2)

    assert fail(tries, retry_after_s=2.0) == 2.1


def test_nobody_waits_beyond_the_deadline():
    tries = attempts(1)

    assert fail(tries, 109.95) is None


HASTY = Patience(deadline_s=60.0, absent_s=2.0, pause_first_s=0.1, pause_max_s=0.1)


def test_where_nobody_takes_a_connection_there_is_soon_no_cluster():
    tries = attempts(2, patience=HASTY)

    assert fail(tries, 101.8) is not None
    assert fail(tries, 101.8) is not None
    assert fail(tries, 102.0) is None


def test_every_address_is_asked_first():
    """The first one may be slow to refuse."""
    tries = attempts(2, patience=HASTY)

    assert fail(tries, 105.0) == 0.0
    assert fail(tries, 105.0) is None


def test_whoever_took_a_connection_is_waited_for():
    tries = attempts(1, patience=HASTY)

    assert fail(tries, 101.0, was_connected=True) is not None
    assert fail(tries, 150.0) is not None


def test_a_cluster_that_was_there_is_waited_for():
    tries = attempts(1, patience=HASTY.for_what_is_there)

    assert fail(tries, 150.0) is not None


def test_one_request_never_outlasts_the_deadline():
    tries = attempts(1, patience=Patience(deadline_s=10.0, attempt_timeout_s=4.0))

    assert tries.timeout_s(100.0) == 4.0
    assert tries.timeout_s(109.0) == 1.0
    assert tries.timeout_s(111.0) == 0.0


def test_a_doubt_stays_a_doubt():
    """A refused connection later on does not undo what an earlier try may have done."""
    tries = attempts(2)
    fail(tries)
    assert not tries.may_have_arrived
    fail(tries, may_have_arrived=True)
    fail(tries)

    assert tries.may_have_arrived


def test_a_process_that_dies_at_once_is_started_ever_more_rarely():
    restarts = Restarts()
    pauses = []
    for _ in range(20):
        restarts = restarts.after(0.5)
        pauses.append(restarts.pause_s)

    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert pauses[-1] == PAUSE_MAX_S


def test_a_steady_run_is_forgiven():
    restarts = Restarts(7).after(STEADY_S)

    assert restarts == Restarts(1)
    assert restarts.pause_s == 0.1
