/** Whether all is tried, as scripts/crash.mjs does, or the selection that `npm test` has time for. */
export const isFull = process.env["WAYMARK_CRASH"] === "full";
