import { describe, expect, it } from "vitest";
import { lineSink, OutputTail } from "../../../runners/src/oneshot/output-lines.js";

function linesOf(...chunks: (string | Buffer)[]): string[] {
  const lines: string[] = [];
  const sink = lineSink((line) => lines.push(line));
  for (const chunk of chunks) void sink.write(Buffer.from(chunk));
  sink.end();
  return lines;
}

describe("the lines of an output", () => {
  it("are whole, however the output is chunked", () => {
    expect(linesOf("one\ntw", "o\n", "\nthree")).toEqual(["one", "two", "", "three"]);
    expect(linesOf("one\r\ntwo\r", "\n")).toEqual(["one", "two"]);
    expect(linesOf()).toEqual([]);
  });

  it("have whole characters", () => {
    const text = Buffer.from("grün\n");

    expect(linesOf(text.subarray(0, 3), text.subarray(3))).toEqual(["grün"]);
    expect(linesOf(text.subarray(0, 3))).toEqual(["gr\ufffd"]);
  });

  it("come in pieces if they have no end", () => {
    const lines = linesOf(...Array.from({ length: 100 }, () => "x".repeat(10_000)));

    expect(lines.map((line) => line.length)).toEqual([...Array.from({ length: 15 }, () => 65_536), 16_960]);
  });
});

describe("the tail of an output", () => {
  it("is its last lines, and only the beginning of long ones", () => {
    const tail = new OutputTail(2);
    for (let i = 0; i < 100; i++) tail.push(`line ${i}`);
    expect(tail.lines()).toEqual(["line 98", "line 99"]);
    tail.push("x".repeat(5_000));
    expect(tail.lines()).toEqual(["line 99", `${"x".repeat(2_000)}…`]);
  });

  it("is empty if none is requested", () => {
    const tail = new OutputTail(0);
    tail.push("line");
    expect(tail.lines()).toEqual([]);
  });
});
