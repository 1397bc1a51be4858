import type { AdapterCapabilities, StorageAdapter } from "../src/contract/adapter.js";
import type { ConformanceStore, LifecycleState } from "./conformance-case.js";
import type { ConformanceHarness, ConformanceModule, DamagedPart, OptionalMethod } from "./harness.js";
import { loadModule, urlOfModule } from "./load-module.js";
import { OtherProcess } from "./other-process.js";

/** The store of one case, opened by the harness's module. */
export class CaseStore implements ConformanceStore {
  readonly location: string;
  readonly capabilities: AdapterCapabilities;
  readonly offers: readonly OptionalMethod[];
  readonly #state: LifecycleState;
  readonly #moduleUrl: string;
  readonly #module: ConformanceModule;
  readonly #opened: StorageAdapter[] = [];
  readonly #processes: OtherProcess[] = [];

  private constructor(harness: ConformanceHarness, state: LifecycleState, location: string, module: ConformanceModule) {
    this.location = location;
    this.capabilities = harness.capabilities;
    this.offers = harness.offers ?? [];
    this.#state = state;
    this.#moduleUrl = urlOfModule(harness.module);
    this.#module = module;
  }

  /** Makes a new, empty store. */
  static async make(harness: ConformanceHarness, state: LifecycleState): Promise<CaseStore> {
    const module = await loadModule(urlOfModule(harness.module));
    return new CaseStore(harness, state, await harness.newLocation(), module);
  }

  async open(): Promise<StorageAdapter> {
    const adapter = await this.#module.open(this.location);
    this.#opened.push(adapter);
    return adapter;
  }

  async carryOn(adapter: StorageAdapter): Promise<StorageAdapter> {
    return this.#state === "reopened" ? this.reopen(adapter) : adapter;
  }

  async reopen(adapter: StorageAdapter): Promise<StorageAdapter> {
    await adapter.close();
    return this.open();
  }

  async damage(adapter: StorageAdapter, taskId: string, id: string, part: DamagedPart): Promise<StorageAdapter> {
    if (!this.#module.damage) {
      throw new TypeError(
        `${this.#moduleUrl} must export damage(location, taskId, id, part): the suite tests durable adapters with damaged records.`,
      );
    }
    await adapter.close();
    await this.#module.damage(this.location, taskId, id, part);
    return this.open();
  }

  async damageRecord(adapter: StorageAdapter, taskId: string, sequence: number): Promise<StorageAdapter> {
    if (!this.#module.damageRecord) {
      throw new TypeError(
        `${this.#moduleUrl} must export damageRecord(location, taskId, sequence): the suite tests durable logs with damaged records.`,
      );
    }
    await adapter.close();
    await this.#module.damageRecord(this.location, taskId, sequence);
    return this.open();
  }

  async elsewhere(): Promise<OtherProcess> {
    const other = await OtherProcess.start(this.#moduleUrl, this.location, this.capabilities);
    this.#processes.push(other);
    return other;
  }

  /** Closes the adapters that the case opened, and ends its processes. */
  async release(): Promise<void> {
    await Promise.all([
      ...this.#opened.map((adapter) => adapter.close()),
      ...this.#processes.map((other) => other.stop()),
    ]);
  }
}
