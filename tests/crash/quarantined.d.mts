export function quarantined(kind: string, folder: string): string[];
