import { describe, expect, it } from "vitest";
import { reportOf } from "../../../runners/src/coders/coder-report.js";
import { type CoderRequest, callCoder } from "../../../runners/src/prp/coder.js";
import { replyIn, toCoderReply } from "../../../runners/src/prp/coder-reply.js";
import { deferred } from "../../support/deferred.js";

const SUCCESS = { result: "success", message: "done", artifacts: [] };
const RAN = { exitCode: 0, stdout: "", stdoutEnd: "", stderr: "", signal: null, timedOut: false, aborted: false };

function request(signal = new AbortController().signal): CoderRequest {
  return { taskId: "t", prompt: "p", prpPath: "", cwd: "/", fixAttempt: 0, failedGates: [], signal };
}

describe("a coder's reply", () => {
  it.each([
    ["on the last line", 'working …\n{"result":"success","message":"done"}\n\n'],
    ["in a fence at the end", 'Here it is:\n\n```json\n{\n  "result": "success",\n  "message": "done"\n}\n```\n'],
    ["as the whole output", '{\n  "result": "success",\n  "message": "done"\n}'],
    ["in colour", 'working …\n\u001b[1;32m{"result":"success","message":"done"}\u001b[0m\n\u001b[K'],
    ["after an earlier one", '{"result":"error","message":"first try"}\n{"result":"success","message":"done"}'],
  ])("is found %s", (_where, response) => {
    expect(toCoderReply(response)).toEqual(SUCCESS);
  });

  it.each(["artifacts", "files"])("names the files in %s", (key) => {
    const reply = JSON.stringify({ result: "issue", message: "unclear", [key]: ["a.ts"] });

    expect(toCoderReply(reply)).toEqual({ result: "issue", message: "unclear", artifacts: ["a.ts"] });
  });

  it.each([
    ["prose only", "All is done and tested.", "All is done and tested."],
    ["a fenced result and a sentence", '```json\n{"result":"success","message":"a"}\n```\nBye.', /Bye\.$/],
    ["a result over several lines", '{\n  "result": "success",\n  "message": "done"\n}', "done"],
    ["another form of JSON", '{"result":"done","message":""}', /^\{/],
    [
      "an envelope",
      JSON.stringify({
        type: "result",
        subtype: "success",
        is_error: false,
        result: '{"result":"success","message":"in it"}',
      }),
      "in it",
    ],
    [
      "lines of JSON",
      '{"type":"item.completed","item":{"type":"agent_message","text":"in the item"}}\n{"type":"turn.completed","usage":{}}',
      "in the item",
    ],
    ["nothing", " \n", ""],
  ])("may be %s: the gates decide", (_form, response, message) => {
    const reply = toCoderReply(response);

    expect(reply.result).toBe("success");
    expect(reply.message).toEqual(typeof message === "string" ? message : expect.stringMatching(message));
  });

  it("is an error if the envelope reports one", () => {
    const envelope = { type: "result", subtype: "error_max_turns", is_error: true, result: "" };

    expect(toCoderReply(JSON.stringify(envelope))).toMatchObject({
      result: "error",
      message: expect.stringMatching(/error_max_turns/),
    });
  });

  it("is found quickly in a long output", () => {
    const log = "some *log* with `things` in it\n".repeat(35_000);

    expect(toCoderReply(log).result).toBe("success");
    expect(toCoderReply(`${log}~~~~ json\n{"result":"success",\n"message":"done"}\n~~~~`)).toEqual(SUCCESS);
  });

  it("quotes only the end of a long text", () => {
    expect(toCoderReply(`${"x".repeat(5_000)} the end`).message).toMatch(/^… x{50,2000} the end$/);
  });

  it("may be an object or text if the coder is a function", () => {
    expect(toCoderReply({ result: "success", message: "done" })).toEqual(SUCCESS);
    expect(toCoderReply('{"result":"success","message":"done"}')).toEqual(SUCCESS);
    expect(toCoderReply(undefined)).toMatchObject({
      result: "error",
      message: expect.stringMatching(/returned no result/),
    });
    expect(toCoderReply({ result: "success" })).toMatchObject({
      result: "error",
      message: expect.stringMatching(/message/),
    });
  });
});

describe("a coder command's reply", () => {
  it("is in its output", () => {
    const stdoutEnd = 'thinking\n{"result":"success","message":"done"}\n';

    expect(replyIn(reportOf({ ...RAN, stdoutEnd }))).toEqual(SUCCESS);
  });

  it.each([
    [{ exitCode: 3, stderr: "no key\n" }, /^The coder exited with 3: no key$/],
    [{ exitCode: null }, /ended by a signal/],
    [{ exitCode: null, timedOut: true }, /timed out/],
  ])("is an error if it exits with another code, is killed or times out, whatever it wrote: %j", (ran, message) => {
    const reply = replyIn(reportOf({ ...RAN, stdoutEnd: '{"result":"success","message":"done"}', ...ran }));

    expect(reply).toMatchObject({ result: "error", message: expect.stringMatching(message) });
  });
});

describe("a coder that is a function", () => {
  it("is an error with the thrown message", async () => {
    const thrown = Object.assign(new Error("no network"), { code: "ENET" });

    expect(
      await callCoder(
        () => {
          throw thrown;
        },
        request(),
        { graceMs: 0 },
      ),
    ).toMatchObject({ error: thrown, reply: { result: "error", message: "no network" } });
    const rude = () => {
      throw JSON.parse('"plain"');
    };
    expect(await callCoder(rude, request(), { graceMs: 0 })).toMatchObject({ reply: { message: "plain" } });
  });

  it("is given up at its timeout, and its signal aborts", async () => {
    const told = deferred();
    const outcome = await callCoder(
      ({ signal }) => {
        signal.addEventListener("abort", () => told.resolve());
        return new Promise(() => {});
      },
      request(),
      { timeoutMs: 10, graceMs: 10 },
    );

    await told.promise;
    expect(outcome?.reply).toMatchObject({ result: "error", message: expect.stringMatching(/timed out after 10 ms/) });
  });

  it("still counts if it ends within the grace after an abort", async () => {
    const run = new AbortController();
    const outcome = callCoder(
      ({ signal }) =>
        new Promise((resolve) =>
          signal.addEventListener("abort", () => resolve({ result: "success", message: "done" })),
        ),
      request(run.signal),
      { graceMs: 60_000 },
    );
    run.abort();

    expect((await outcome)?.reply).toEqual(SUCCESS);
  });

  it("has no outcome if the run is aborted, whether it heeds the signal or not", async () => {
    const run = new AbortController();
    const heeding = callCoder(
      ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", reject)),
      request(run.signal),
      {
        graceMs: 60_000,
      },
    );
    const deaf = callCoder(() => new Promise(() => {}), request(run.signal), { graceMs: 1 });
    run.abort();

    expect(await heeding).toBeUndefined();
    expect(await deaf).toBeUndefined();
    expect(await callCoder(() => new Promise(() => {}), request(run.signal), { graceMs: 1 })).toBeUndefined();
  });
});
