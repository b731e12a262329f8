"""Replicas of replicas."""

from contents import equal
from nodes import linked, until
from trial import fill, scenario


def chain(trial, **settings):
    first, middle, last = (trial.node(place, **settings) for place in range(3))
    middle.follow(first.address)
    last.follow(middle.address)
    linked(middle, last)
    return first, middle, last


@scenario(ends=3)
def through_the_middle(trial):
    """A replica of a replica has what the first has; a cut of either link changes nothing."""
    first, middle, last = (trial.node(place) for place in range(3))
    fill(first, 500)
    upper, lower = trial.proxy(first.address), trial.proxy(middle.address)
    middle.follow(upper.address)
    last.follow(lower.address)
    linked(middle, last)
    with trial.writers(first) as writers:
        writers.wait_for(500)
        upper.cut()
        writers.wait_for(500)
        lower.cut()
        until(lambda: middle.stat("sync_partial_ok") >= 1, "the last goes on where it was")
        writers.wait_for(500).end()
    equal(first, middle, last)
    assert first.stat("sync_full") == 1, first.info("stats")
    assert last.info()["master_replid"] == first.info()["master_replid"]


@scenario(ends=3)
def without_the_middle(trial):
    """The middle is killed: the last follows the first, and goes on where it was."""
    first, middle, last = chain(trial)
    with trial.writers(first) as writers:
        writers.wait_for(500)
        middle.kill()
        last.follow(first.address)
        linked(last)
        writers.wait_for(500).end()
    equal(first, last)
    assert first.stat("sync_full") == 1, first.info("stats")
    assert first.stat("sync_partial_ok") == 1, first.info("stats")


@scenario(ends=3)
def middle_promoted(trial):
    """The middle becomes a primary: the last stays with it, without a new copy."""
    first, middle, last = chain(trial)
    with trial.writers(first) as writers:
        writers.wait_for(500).end()
    equal(first, middle, last)
    full = middle.stat("sync_full")
    middle.lead()
    with trial.writers(middle) as writers:
        writers.wait_for(500).end()
    equal(middle, last)
    assert middle.stat("sync_full") == full, middle.info("stats")


@scenario(ends=3)
def middle_with_another_history(trial):
    """The middle gets another primary: so does the last, all the way."""
    first, middle, last = chain(trial)
    fill(first, 50)
    other = trial.node(0)
    fill(other, 70, prefix="other")
    equal(first, middle, last)
    middle.follow(other.address)
    linked(middle)
    assert equal(other, middle, last) == 70
