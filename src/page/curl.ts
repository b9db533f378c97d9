import { REDACTED } from '../contract/recorded-text.ts';
import { escapeInvisible, type WholeRequest } from './text.ts';

/** A curl command that repeats a recorded request, if curl can, and notes about what differs from that request. */
type CurlCommand = { command: string | undefined; notes: readonly string[] };

/** Headers that curl or the connection sets, and Accept-Encoding, so that curl prints a readable body. */
const OMITTED = /^(?:accept-encoding|connection|content-length|expect|host|keep-alive|transfer-encoding)$/;

/** A header value that curl sends as it was received. Other characters would be sent as UTF-8. */
const PRINTABLE = /^[\x20-\x7e]*$/;

/** Formats a recorded request as a command for curl in a POSIX shell. The key is in the variable PETS_API_KEY. */
export function curlCommand(
  { method, url, request }: Pick<WholeRequest, 'method' | 'url' | 'request'>,
  origin: string,
): CurlCommand {
  // The target of a request to a proxy begins with an origin.
  const target = /^https?:\/\/[^/?]*(\/.*)$/i.exec(url)?.[1] ?? url;
  const { body } = request;
  if (!target.startsWith('/') || !/^[A-Z-]+$/.test(method) || method === '-')
    return { command: undefined, notes: ['curl cannot repeat this request.'] };
  // A terminal could interpret such characters when the text is pasted, or show another text.
  if (body !== undefined && escapeInvisible(body).replaceAll('\ufffd', '') !== body)
    return { command: undefined, notes: ['The body has characters that cannot be pasted.'] };
  const notes: string[] = [];
  const options = [...methodOptions(method, request.bodyBytes > 0)];
  for (const [name, value] of Object.entries(request.headers)) {
    if (OMITTED.test(name)) continue;
    if (name === 'authorization') options.push('-H "Authorization: Bearer $PETS_API_KEY"');
    else if (value === REDACTED || !PRINTABLE.test(value)) notes.push(`The header ${name} is left out.`);
    else options.push(`-H ${quoteForShell(value === '' ? `${name};` : `${name}: ${value}`)}`);
  }
  if (body !== undefined && !('content-type' in request.headers)) options.push("-H 'Content-Type:'");
  if (body !== undefined) options.push(`--data-raw ${quoteForShell(body)}`);
  if (request.cutOff) notes.push('The body is cut off: only its beginning is recorded.');
  if (`${target}${body}`.includes(REDACTED)) notes.push('Replace [redacted] with the secret first.');
  const address = quoteForShell(origin + encodeTarget(target));
  return { command: `curl -g --path-as-is ${[...options, address].join(' \\\n  ')}`, notes };
}

function methodOptions(method: string, hasBody: boolean): string[] {
  if (method === 'HEAD') return ['-I'];
  return method === (hasBody ? 'POST' : 'GET') ? [] : [`-X ${method}`];
}

const quoteForShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Percent-encodes all characters but visible ASCII. In a recorded target, each character is one byte. */
const encodeTarget = (target: string): string =>
  target.replace(
    /[^\x21-\x7e]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );
