import { expect, it } from "vitest";
import { draft } from "../../../../conformance/drafts.js";
import { newPool, newStore, openAdapter, spyingPool, untilWaiting } from "../../../support/postgres.js";

/** A short duration that still lets a write under the lease begin in time on a busy machine. */
const [LONG_MS, SHORT_MS] = [600_000, 2000];

/** Whether the claim waits for another transaction, so that `waiting` statements wait for locks. */
async function claimWaits(url: string, schema: string, claim: Promise<unknown>, waiting: number): Promise<boolean> {
  return Promise.race([claim.then(() => false), untilWaiting(url, schema, waiting).then(() => true)]);
}

it("a lease that expires while a write under it waits is claimed after that write", async () => {
  const { url, schema, adapter } = await newStore();
  await adapter.append(draft("t", "c1"));
  const inTheWay = await newPool(url).connect();
  await inTheWay.query("BEGIN");
  await inTheWay.query(`SELECT FROM "${schema}".tasks WHERE task_id = 't' FOR UPDATE`);
  const { token } = await adapter.leases.claim("t", "first", SHORT_MS);
  const late = adapter.append(draft("t", "late"), { fencingToken: token });
  await untilWaiting(url, schema, 1);
  while ((await adapter.leases.current("t")) !== undefined);

  const claim = openAdapter({ url, schema }).leases.claim("t", "second", LONG_MS);
  expect(await claimWaits(url, schema, claim, 2)).toBe(true);
  await inTheWay.query("COMMIT");
  inTheWay.release();
  expect(await late).toBe(2);
  expect(await claim).toMatchObject({ isGranted: true, token: token + 1 });
});

it.each(["setStatus", "remove"])(
  "a lease that expires in the middle of %s under it is claimed afterwards",
  async (call) => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("t", "c1"));
    let claim: ReturnType<typeof adapter.leases.claim> | undefined;
    let hasWaited: boolean | undefined;
    const before = async ({ text }: { text: string }) => {
      // The lease has been checked, and nothing is changed yet.
      if (claim !== undefined || !text.includes("tasks WHERE task_id = $1 FOR UPDATE")) return;
      while ((await adapter.leases.current("t")) !== undefined);
      claim = adapter.leases.claim("t", "second", LONG_MS);
      hasWaited = await claimWaits(url, schema, claim, 1);
    };
    const slow = openAdapter({ pool: spyingPool(newPool(url), { before }), schema });
    // Connects the adapter before the lease begins.
    await slow.get("t", "c1");
    const { token } = await adapter.leases.claim("t", "first", SHORT_MS);
    const condition = { fencingToken: token };
    await (call === "remove"
      ? slow.remove("t", "all", condition)
      : slow.setStatus("t", "c1", { status: "paused" }, condition));
    expect(hasWaited).toBe(true);
    expect(await claim).toMatchObject({ isGranted: true, token: token + 1 });
  },
);

it("a claim whose answer is lost is granted, and another claim of the same holder is not", async () => {
  const { url, schema, adapter } = await newStore();
  await adapter.append(draft("t", "c1"));
  let isLost = false;
  const after = ({ text }: { text: string }) => {
    if (isLost || !/INSERT INTO \S+\.leases/.test(text)) return;
    isLost = true;
    throw Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
  };
  const { leases } = openAdapter({ pool: spyingPool(newPool(url), { after }), schema });
  expect(await leases.claim("t", "worker (claim 7)", LONG_MS)).toMatchObject({ isGranted: true, token: 1 });
  expect(isLost).toBe(true);
  const again = await leases.claim("t", "worker (claim 7)", LONG_MS);
  expect(again).toMatchObject({ isGranted: false, token: 1, holder: "worker (claim 7)" });
  expect(await leases.renew("t", 1, LONG_MS)).toBe(true);
  await leases.release("t", 1);
  expect(await leases.claim("t", "worker (claim 7)", LONG_MS)).toMatchObject({ isGranted: true, token: 2 });
});
