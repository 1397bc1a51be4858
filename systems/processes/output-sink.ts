/** Takes one stream of one process. */
export interface OutputSink {
  /** @returns A promise where the writer has to wait until the terminal, or whoever reads, has caught up. */
  write(chunk: Buffer): Promise<void> | undefined;
  end(): void;
}
