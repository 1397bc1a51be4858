import type { Session } from "../cli.js";
import { Damage, type DamagedRecord, identify } from "../damage.js";
import type { QuerySession } from "../store.js";
import type { DamageInfo } from "./api-parts.js";
import { damageInfo } from "./rows.js";

const MOST_RECORDS = 100;

/** The damage that one request met, for its answer. Nothing is printed. */
export class RequestDamage extends Damage {
  readonly #known = new Set<string>();
  readonly #records: DamageInfo[] = [];
  readonly #warnings: string[] = [];
  #total = 0;

  constructor() {
    super(async () => undefined);
  }

  /** The first of the damaged records. */
  get records(): readonly DamageInfo[] {
    return this.#records;
  }

  get total(): number {
    return this.#total;
  }

  get warnings(): readonly string[] {
    return this.#warnings;
  }

  override async add(record: DamagedRecord): Promise<void> {
    const key = identify(record);
    if (this.#known.has(key)) return;
    this.#total += 1;
    if (this.#known.size >= MOST_RECORDS) return;
    this.#known.add(key);
    this.#records.push(damageInfo(record));
  }

  override async warn(message: string): Promise<void> {
    if (this.#warnings.length < MOST_RECORDS) this.#warnings.push(message);
  }
}

/** The storage, as one request uses it. */
export interface PageSession extends QuerySession {
  readonly damage: RequestDamage;
  readonly commandText: Session["commandText"];
}

export function pageSession(session: Session): PageSession {
  // A person copies the page's commands into a shell that is in another folder.
  return { ...session, commandText: session.commandAnywhere, damage: new RequestDamage() };
}
