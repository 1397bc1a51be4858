import type { StorageAdapter } from "waymark";

export function recorded(storage: StorageAdapter, folder: string, process: string): StorageAdapter;
