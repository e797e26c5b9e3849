//! Rollback with the built binary: a build that breaks at its first events costs nothing but those attempts, and does not
//! come again, whatever happens to the host, until something else is in the file.

mod damaged;
mod overtaken;
mod restarts;
mod stage;
mod trials;

use hark_tests::on_both_servers;

use self::restarts::*;
use self::trials::*;

on_both_servers! {
    with_continue_nothing_is_lost_doubled_or_given_up
    with_replay_the_one_before_sees_everything
    after_a_kill_the_good_one_runs_and_the_refused_one_stays_so
}
