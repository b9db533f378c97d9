import { header } from '../contract/headers.ts';
import { type ReplyHeaders, readHeaders } from './headers.ts';

/** The target of the link with a relation (RFC 8288); several Link headers count as one list. */
export function findLink(headers: ReplyHeaders, relation: string): string | undefined {
  const text = readHeaders(headers, header.link).join(', ');
  for (const [, target, parameters = ''] of text.matchAll(
    /<([^>]*)>((?:\s*;\s*[^,;="\s]+\s*=\s*(?:"[^"]*"|[^",;\s]+))*)/g,
  )) {
    const rel = /;\s*rel\s*=\s*(?:"([^"]*)"|([^",;\s]+))/i.exec(parameters);
    const relations = (rel?.[1] ?? rel?.[2] ?? '').toLowerCase().split(/\s+/);
    if (relations.includes(relation)) return target;
  }
  return undefined;
}
