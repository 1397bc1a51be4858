import type { StorageAdapter } from "waymark";
import type { DamagedPart } from "waymark/conformance";

export function open(location: string): Promise<StorageAdapter>;
export function damage(location: string, taskId: string, id: string, part: DamagedPart): Promise<void>;
