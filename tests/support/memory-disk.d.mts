export function memoryDisk(): string | undefined;
