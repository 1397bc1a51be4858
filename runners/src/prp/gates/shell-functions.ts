// Functions that the scripts of gates call.

/**
 * Two functions around each pipe. If the gate has set `pipefail`, the first one switches it off while the pipe runs,
 * since it would end the gate before the statuses are judged. The second one's arguments are the statuses of the pipe's
 * commands, after `!` if the pipe is negated. Both are on the script's first line, so that line numbers stay the same.
 */
export const PIPE_JUDGE =
  `__waymark_begin(){ case :$SHELLOPTS: in *:pipefail:*)__waymark_fail=1;set +o pipefail;;*)__waymark_fail=;;esac;};` +
  "__waymark_pipe(){ case $__waymark_fail in 1)set -o pipefail;;esac;" +
  "__waymark_not=;case $1 in !)__waymark_not=1;shift;;esac;" +
  "while [ $# -gt 1 ];do case $1 in 0|141);;*)return $1;;esac;shift;done;" +
  "case $__waymark_not,$1 in 1,0)return 1;;1,*)return 0;;*)return $1;;esac;};";

/** Waits for each job. A job that the gate itself ended isn't a failure. */
export const WAIT_FOR_EACH =
  "__waymark_jobs=;__waymark_wait(){ __waymark_last=0;for __waymark_job in $*;do wait $__waymark_job||" +
  "case $? in 130|137|143);;*)__waymark_last=1;;esac;done;return $__waymark_last;};";

/**
 * Functions for a bash script, on one line. `__waymark_serve PORT PID` shows a server's output from descriptor 8 until
 * the port is open; without a port, until the server says that it is ready, or has been quiet for ten seconds. If the
 * server ends earlier, the function returns its status. It fails after two minutes. The server is ended with the gate's
 * process group.
 */
export const SERVE = [
  "__waymark_open(){ (exec 7<>/dev/tcp/localhost/$1)2>/dev/null;};",
  '__waymark_closed(){ case $1 in "")return;;esac;if __waymark_open $1;then ',
  'echo "[waymark: port $1 is in use already, so nothing would show whether this server starts]" >&2;return 1;fi;};',
  "__waymark_serve(){ local line= quiet=0 said= limit=$((SECONDS+120));",
  'until [ "$quiet" = ready ];do ',
  "if IFS= read -r -t 1 line<&8;then printf '%s\\n' \"$line\";said=1;quiet=0;",
  "case $1,$line in ,*[Ll]istening*|,*[Rr]eady*|,*[Rr]unning\\ on*|,*[Rr]unning\\ at*|,*://localhost*|,*://127.0.0.1*|,*://0.0.0.0*)",
  "quiet=ready;;esac;",
  'elif [ $? -gt 128 ];then printf %s "$line";case $1,$said in ,1)quiet=$((quiet+1));[ $quiet -lt 10 ]||quiet=ready;;esac;',
  'else wait "$2";return;fi;',
  'if [ -n "$1" ]&&__waymark_open "$1";then quiet=ready;fi;',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's
  'if [ $SECONDS -gt $limit ];then echo "[waymark: the server is not ready after 2 minutes, its port is ${1:-unknown}]" >&2;return 1;fi;',
  "done;while IFS= read -r line;do printf '%s\\n' \"$line\";done<&8& };",
].join("");
