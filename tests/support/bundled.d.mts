export function bundled(path: string): Promise<string>;
