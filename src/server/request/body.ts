import type { IncomingMessage } from 'node:http';
import { parseJson } from '../../contract/json.ts';
import { ServiceError } from '../service-error.ts';
import { countHeader } from './count-header.ts';

export const MAX_BODY_BYTES = 64 * 1024;
const MAX_DEPTH = 32;
const UTF8 = new TextDecoder('utf-8', { fatal: true });

const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i;

/**
 * Reads a JSON body, counting what arrives rather than believing Content-Length.
 *
 * @throws ServiceError 400, 413 or 415: at once for what the headers say, later for the body
 */
export function readJsonBody(request: IncomingMessage): Promise<unknown> {
  checkType(request);
  // A body that says itself that it is too large need not be sent.
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  return collect(request);
}

function checkType(request: IncomingMessage): void {
  if (countHeader(request, 'content-type') > 1) {
    throw new ServiceError('invalid_request', 'The Content-Type header is given twice');
  }
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = request.headers;
  const charset = CHARSET.exec(type)?.[1] ?? 'utf-8';
  if (JSON_TYPE.test(type) && /^utf-?8$/i.test(charset) && encoding.toLowerCase() === 'identity') return;
  throw new ServiceError(
    'unsupported_media_type',
    'The body must be sent as Content-Type: application/json, in UTF-8 and without a Content-Encoding',
  );
}

/** Not `for await`: leaving that loop early destroys the socket, and the client would never see the 413. */
function collect(request: IncomingMessage): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const broken = () => {
      // Behind a whole body it closes too: no error is made that nobody hears.
      if (!request.readableEnded)
        reject(new ServiceError('invalid_request', 'The body ended before it was complete'));
    };
    // Who has gone while the key was looked up says nothing any more.
    if (request.destroyed) broken();
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= MAX_BODY_BYTES) chunks.push(chunk);
      else {
        chunks.length = 0;
        reject(tooLarge());
      }
    });
    request.on('end', () => {
      try {
        resolve(parseBody(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
      } catch (error) {
        reject(error);
      }
    });
    request.on('close', broken);
  });
}

const tooLarge = () =>
  new ServiceError('payload_too_large', `The body is larger than ${MAX_BODY_BYTES} bytes`);

function decodeUtf8(bytes: Buffer): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new ServiceError('invalid_request', 'The body is not valid UTF-8');
  }
}

function parseBody(bytes: Buffer): unknown {
  const text = decodeUtf8(bytes);
  if (text.trim() === '') throw new ServiceError('invalid_request', 'The body is missing');
  try {
    return parseJson(text, MAX_DEPTH);
  } catch (error) {
    throw new ServiceError('invalid_request', `The body is not valid JSON: ${(error as Error).message}`);
  }
}
