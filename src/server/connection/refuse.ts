import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { App } from '../app.ts';
import { methodNotAllowed } from '../refusals.ts';
import { allMethods } from '../router.ts';
import { ServiceError } from '../service-error.ts';

const PARSER_ERRORS: Readonly<Record<string, ServiceError>> = {
  HPE_HEADER_OVERFLOW: new ServiceError('headers_too_large', 'The headers are larger than 8 KiB'),
  ERR_HTTP_REQUEST_TIMEOUT: new ServiceError('request_timeout', 'The request did not arrive in time'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: new ServiceError('payload_too_large', 'The chunk extensions are too large'),
};
const INVALID = new ServiceError('invalid_request', 'The request is not valid HTTP');

/** A request line that is well-formed, with a method that Node's parser does not know. */
const REQUEST_LINE = /^[!#$%&'*+.^_`|~\w-]+ \S+ HTTP\/1\.[01]\r?\n/;

export type ParserError = Error & { code?: string; rawPacket?: Buffer; bytesParsed?: number };

/** What to tell of what Node's parser refused. */
export function refusalOf(error: ParserError): ServiceError {
  if (error.code === 'HPE_INVALID_METHOD' && REQUEST_LINE.test(lineOf(error))) {
    return methodNotAllowed('The service', allMethods);
  }
  return PARSER_ERRORS[error.code ?? ''] ?? INVALID;
}

/** From the method on that the parser stopped in: good requests and their bodies may stand before. */
function lineOf({ rawPacket = Buffer.alloc(0), bytesParsed = 0 }: ParserError): string {
  let start = Math.min(bytesParsed, rawPacket.length);
  while (start > 0 && /[\w-]/.test(String.fromCharCode(rawPacket[start - 1] ?? 0))) start--;
  return rawPacket.toString('latin1', start);
}

/**
 * Answers with the Error body and the headers of every answer: to the request that was broken, or below HTTP's server
 * where there is none. The connection is over then.
 */
export async function refuse(
  app: App,
  error: ServiceError,
  socket: Socket,
  to: ServerResponse | 'answer',
): Promise<void> {
  const { status, headers, body } = await app.refuse(error, socket);
  const all = {
    ...headers,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  };
  if (to === 'answer') {
    const lines = Object.entries({ ...all, Date: new Date().toUTCString() }).map((each) => each.join(': '));
    socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
  } else if (!to.headersSent) {
    to.writeHead(status, all).end(body);
  }
}
