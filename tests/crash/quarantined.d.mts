export function quarantined(kind: string, folder: string): Promise<string[]>;
