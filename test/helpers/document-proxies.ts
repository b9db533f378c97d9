import { readBlocks } from './document-blocks.ts';
import type { Document } from './documents.ts';
import { type Configure, nginxServer } from './real-proxies.ts';

/**
 * The configuration of a reverse proxy that a document shows, as the proxy needs it in a test.
 *
 * @param upstreams each address in the document and the address (host:port) that replaces it
 * @throws if the document shows no such configuration, or without these addresses
 */
export function documentedProxy(
  document: Document,
  name: 'nginx' | 'haproxy',
  upstreams: Record<string, string>,
): Configure {
  const configuration = (replacements: Record<string, string>): string => {
    let text = readBlocks(document).find(({ language }) => language === name)?.text ?? '';
    for (const [from, to] of Object.entries({ ...replacements, ...upstreams })) {
      if (!text.includes(from)) throw new Error(`the ${name} block of ${document.name} has no ${from}`);
      text = text.replaceAll(from, to);
    }
    return text;
  };
  if (name === 'haproxy') return (port) => configuration({ 'bind :80': `bind 127.0.0.1:${port}` });
  return (port, directory) => {
    const text = configuration({ 'listen 80;': `listen 127.0.0.1:${port};` });
    const start = text.indexOf('server {');
    const directives = text.slice(start).replace('server {', '').replace(/\}\n$/, '');
    return nginxServer(() => directives, text.slice(0, start))(port, directory);
  };
}
