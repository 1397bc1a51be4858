import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { sealDraft } from "waymark/adapter";
import { draft, fullDraft } from "../../../conformance/drafts.js";
import { sealedParts } from "../../../src/contract/checkpoint.js";

it.each([draft("t", "c1"), fullDraft('a",0,"b', "\0\u{1f600}"), draft("0", "0", { metadata: { a: [0] } })])(
  "the sealed parts around a sequence give the seal of %j",
  (one) => {
    const [before, after] = sealedParts(one);
    for (const sequence of [1, 42, Number.MAX_SAFE_INTEGER]) {
      const sealed = createHash("sha256").update(`${before}${sequence}${after}`).digest("hex");
      expect(sealed).toBe(sealDraft(one, sequence).seal);
    }
  },
);
