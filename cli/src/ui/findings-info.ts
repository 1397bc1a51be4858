import type { VerifyResult } from "waymark";
import type { RepairStep } from "../findings.js";
import type { Finding, RepairAnswer } from "./api-storage.js";
import { damageInfo, pickDefined } from "./rows.js";

export function findingInfo(finding: VerifyResult["findings"][number]): Finding {
  const at =
    finding.kind === "damaged" ? finding.createdAt : finding.kind === "leftover" ? finding.modifiedAt : undefined;
  return { kind: finding.kind, ...damageInfo(finding), ...pickDefined({ at }) };
}

export function repairStep(step: RepairStep): RepairAnswer["steps"][number] {
  const text = step.action === "left" ? step.advice : step.action === "quarantined" ? step.to : step.finding.location;
  return { action: step.action, finding: findingInfo(step.finding), text };
}
