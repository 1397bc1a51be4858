import { expect, it } from "vitest";
import { loadPlan, OneshotError, runOneshot } from "waymark/oneshot";
import { checkPrp, PrpError, PrpExecutor } from "waymark/prp";

it.each([
  [{ checkPrp, PrpError, PrpExecutor }, "waymark-runners/prp"],
  [{ loadPlan, OneshotError, runOneshot }, "waymark-runners/oneshot"],
])("an old import of %o says that it is in %s now", (old, to) => {
  for (const [name, stub] of Object.entries(old)) {
    const message = `${name} has moved to ${to}. Run: npm install waymark-runners`;
    expect(stub).toThrow(message);
    expect(() => Reflect.construct(stub, [])).toThrow(message);
  }
});
