/**
 * How long the watchdog waits before it checks again whether the group is gone. The script's argument is the number of
 * checks before SIGKILL.
 */
export const WATCHDOG_POLL_MS = 20;

/**
 * A shell script that reads a pipe to its end, and then ends a process group: by SIGTERM, and after a grace period by
 * SIGKILL. The pipe ends when the process that started the script closes it or dies, however it dies. The pipe's first
 * line is the group.
 *
 * A second line means that the command has ended by itself. The processes that it left then get 200 ms to end by
 * themselves. The exit code is 0 if nothing had to be ended. The script gives up on processes that outlive SIGKILL (in
 * a hanging system call, or another user's) after ten seconds.
 *
 * Zombie processes don't count: in a container without an init they stay for ever. Only Linux's /proc shows them. A
 * killed process can look ended while some of its threads still hold its ports, so threads are checked as well. `kill`
 * gets no `--`, because dash reads it as a number.
 */
export const WATCHDOG = String.raw`
PATH="$PATH:/usr/bin:/bin"
trap "" HUP INT QUIT TERM
read -r group || exit 0
runs() {
  kill -0 "-$group" || return 1
  [ ! -e /proc/self/stat ] || grep -Eqs "\) [^ZX] [0-9]+ $group " /proc/[0-9]*/stat /proc/[0-9]*/task/[0-9]*/stat
}
gone_within() {
  tries=$1
  while runs; do
    [ "$tries" -gt 0 ] || return 1
    tries=$((tries - 1))
    sleep 0.02 || sleep 1
  done
}
if read -r line; then gone_within 10; fi
runs || exit 0
kill -TERM "-$group"
gone_within "$1" || { kill -KILL "-$group"; gone_within 500; }
exit 1
`;
