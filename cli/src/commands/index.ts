import type { CommandFile } from "../cli.js";
import { bisect } from "./bisect.js";
import { cancel } from "./cancel.js";
import { complete } from "./complete.js";
import { completion } from "./completion.js";
import { copy } from "./copy.js";
import { deleteCommand } from "./delete.js";
import { diff } from "./diff.js";
import { enqueue } from "./enqueue.js";
import { exportCommand } from "./export.js";
import { fork } from "./fork.js";
import { importCommand } from "./import.js";
import { langgraph } from "./langgraph.js";
import { list } from "./list.js";
import { logs } from "./logs.js";
import { oneshot } from "./oneshot.js";
import { plan } from "./plan.js";
import { postgres } from "./postgres.js";
import { prp } from "./prp.js";
import { prune } from "./prune.js";
import { rekey } from "./rekey.js";
import { repair } from "./repair.js";
import { resume } from "./resume.js";
import { retry } from "./retry.js";
import { rewind } from "./rewind.js";
import { send } from "./send.js";
import { show } from "./show.js";
import { stats } from "./stats.js";
import { tasks } from "./tasks.js";
import { ui } from "./ui.js";
import { verify } from "./verify.js";
import { wait } from "./wait.js";
import { work } from "./work.js";

/**
 * Every command, in the order of `waymark --help`. To add one, add a file to this folder, and its name to this list.
 */
export const COMMANDS: readonly CommandFile[] = [
  tasks,
  list,
  show,
  resume,
  ui,
  diff,
  bisect,
  fork,
  rewind,
  stats,
  prune,
  deleteCommand,
  complete,
  exportCommand,
  importCommand,
  copy,
  verify,
  repair,
  rekey,
  postgres,
  work,
  enqueue,
  send,
  cancel,
  retry,
  logs,
  wait,
  oneshot,
  prp,
  plan,
  langgraph,
  completion,
];
