export interface SitePlace {
  readonly source: string;
  readonly paths: ReadonlyMap<string, string>;
  readonly home: string | undefined;
}
export function withSiteLinks(markdown: string, where: SitePlace): string;
export function picturesIn(markdown: string, source: string): string[];
export function pictureOf(file: string): string;
