import type { ConformanceCase } from "../conformance-case.js";
import { appendCases } from "./append.js";
import { appendConditionCases } from "./append-conditions.js";
import { appendIdCases } from "./append-ids.js";
import { appendReplacesCases } from "./append-replaces.js";
import { corruptCases } from "./corrupt.js";
import { dueCases } from "./due.js";
import { getCases } from "./get.js";
import { killCases } from "./kills.js";
import { leaseCases } from "./leases.js";
import { lifecycleCases } from "./lifecycle.js";
import { listCases } from "./list.js";
import { logCases } from "./log.js";
import { logKillCases } from "./log-kills.js";
import { maintenanceCases } from "./maintenance.js";
import { processCases } from "./processes.js";
import { readCases } from "./read.js";
import { removeCases } from "./remove.js";
import { replaceCases } from "./replace.js";
import { statusCases } from "./status.js";
import { tasksCases } from "./tasks.js";
import { valuesCases } from "./values.js";

/** Every obligation of the contract, one case each. */
export const conformanceCases: readonly ConformanceCase[] = [
  ...lifecycleCases,
  ...appendCases,
  ...appendIdCases,
  ...appendConditionCases,
  ...appendReplacesCases,
  ...getCases,
  ...readCases,
  ...listCases,
  ...tasksCases,
  ...statusCases,
  ...removeCases,
  ...replaceCases,
  ...valuesCases,
  ...corruptCases,
  ...maintenanceCases,
  ...leaseCases,
  ...dueCases,
  ...logCases,
  ...killCases,
  ...logKillCases,
  ...processCases,
];
