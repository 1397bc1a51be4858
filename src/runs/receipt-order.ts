/**
 * Orders the receipts of waits that look for events at the same time: an event that was sent earlier is also received
 * earlier, so that it wins a race. Each wait has the others' looks.
 */
export class Look {
  readonly #looks: Set<Look>;
  /** The sequence of the event that was found; 0 while none is found. */
  #sequence = 0;
  #onChange: (() => void)[] = [];

  /** Begins a look. @param looks - The looks under way. */
  constructor(looks: Set<Look>) {
    this.#looks = looks;
    looks.add(this);
  }

  /** Resolves once no other look may find, or has found and not recorded, an event below this one. */
  async found(sequence: number): Promise<void> {
    this.#sequence = sequence;
    this.#change();
    for (const other of [...this.#looks]) {
      while (this.#looks.has(other) && other.#sequence < sequence)
        await new Promise<void>((resolve) => void other.#onChange.push(resolve));
    }
  }

  /** Ends the look: no event was found, or its receipt's record has its place in the log. Idempotent. */
  end(): void {
    this.#looks.delete(this);
    this.#change();
  }

  #change(): void {
    const calls = this.#onChange;
    this.#onChange = [];
    for (const call of calls) call();
  }
}
