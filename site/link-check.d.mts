export function linkFindings(folder: string): string[];
