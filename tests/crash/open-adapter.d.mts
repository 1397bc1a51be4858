import type { StorageAdapter } from "waymark";
import type { StoreKind } from "./operations.js";

export function openAdapter(kind: StoreKind, folder: string): Promise<StorageAdapter>;
