import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { withoutBlocks } from './document-blocks.ts';

/** The links of a Markdown file whose target file or heading is missing, and external links without https. */
export function brokenLinks(root: string, name: string): string[] {
  const markdown = readFileSync(join(root, name), 'utf8');
  return linksOf(markdown).filter((link) => !isValid(root, name, link));
}

/** The targets of all links and images outside of code. */
function linksOf(markdown: string): string[] {
  const text = withoutBlocks(markdown).replace(/`[^`]*`/g, '`code`');
  const forms = [
    /\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g,
    /^ *\[[^\]]+\]:\s*(\S+)/gm,
    /<(https?:[^>\s]+)>/g,
    /\b(?:href|src|srcset)="([^"]+)"/g,
  ];
  return [
    ...new Set(forms.flatMap((form) => [...text.matchAll(form)].map(([, target]) => target as string))),
  ];
}

function isValid(root: string, name: string, link: string): boolean {
  // Tests do not use the network, so only the form of an external link is checked.
  if (/^[a-z][a-z+.-]*:/.test(link)) return link.startsWith('https://') && URL.canParse(link);
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? name : join(dirname(name), decodeURIComponent(path));
  if (!existsSync(join(root, target))) return false;
  return anchor === undefined || anchorsOf(readFileSync(join(root, target), 'utf8')).has(anchor);
}

/** The anchors that GitHub generates for the headings of a file, and the anchors in its `<a>` elements. */
export function anchorsOf(markdown: string): Set<string> {
  const text = withoutBlocks(markdown);
  const anchors = new Set([...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id]) => id as string));
  for (const [, heading = ''] of text.matchAll(/^ {0,3}#{1,6} +(.*?)(?: +#+)?$/gm)) {
    const slug = heading
      .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i++) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  return anchors;
}
