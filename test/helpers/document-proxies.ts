import { type Configure, nginxServer } from './real-proxies.ts';

/**
 * The configuration of a reverse proxy that a document shows, as the proxy needs it in a test.
 *
 * @param upstreams each address in the configuration and the address (host:port) that replaces it
 * @throws if the configuration has no such addresses
 */
export function documentedProxy(
  name: 'nginx' | 'haproxy',
  configuration: string,
  upstreams: Record<string, string>,
): Configure {
  const replaceAll = (replacements: Record<string, string>): string => {
    let text = configuration;
    for (const [from, to] of Object.entries({ ...replacements, ...upstreams })) {
      if (!text.includes(from)) throw new Error(`the configuration of ${name} has no ${from}`);
      text = text.replaceAll(from, to);
    }
    return text;
  };
  if (name === 'haproxy') return (port) => replaceAll({ 'bind :80': `bind 127.0.0.1:${port}` });
  return (port, directory) => {
    const text = replaceAll({ 'listen 80;': `listen 127.0.0.1:${port};` });
    const start = text.indexOf('server {');
    const directives = text.slice(start).replace('server {', '').replace(/\}\n$/, '');
    return nginxServer(() => directives, text.slice(0, start))(port, directory);
  };
}
