/** Whether everything is tried, as `npm run crash` does, or what `npm test` has time for. */
export const isFull = process.env["WAYMARK_TESTS"] === "full";
