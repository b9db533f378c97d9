import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { App } from '../app.ts';
import { invalidRequest, methodNotAllowed, ServiceError } from '../errors.ts';
import { headersTooLarge } from '../request/checks.ts';
import { allMethods } from '../routes.ts';

const PARSER_ERRORS: Readonly<Record<string, ServiceError>> = {
  HPE_HEADER_OVERFLOW: headersTooLarge(),
  ERR_HTTP_REQUEST_TIMEOUT: new ServiceError('request_timeout', 'The request did not arrive in time'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: new ServiceError(
    'payload_too_large',
    'The chunk extensions of the body are too large',
  ),
};
const NOT_HTTP = invalidRequest('The request is not valid HTTP');

/** A well-formed request line, even with a method that Node's parser does not know. */
const REQUEST_LINE = /^[!#$%&'*+.^_`|~\w-]+ \S+ HTTP\/1\.[01]\r?\n/;

export type ParserError = Error & { code?: string; rawPacket?: Buffer; bytesParsed?: number };

/** The error response to a request that Node's parser rejected (docs/service.md 10). */
export function toServiceError(error: ParserError): ServiceError {
  if (error.code === 'HPE_INVALID_METHOD' && REQUEST_LINE.test(rejectedText(error))) {
    return methodNotAllowed('The service', allMethods);
  }
  return PARSER_ERRORS[error.code ?? ''] ?? NOT_HTTP;
}

/** The received text, from the rejected method on. Letters and digits directly before the method are included. */
function rejectedText({ rawPacket = Buffer.alloc(0), bytesParsed = 0 }: ParserError): string {
  let start = Math.min(bytesParsed, rawPacket.length);
  while (start > 0 && /[\w-]/.test(String.fromCharCode(rawPacket[start - 1] ?? 0))) start--;
  return rawPacket.toString('latin1', start);
}

/** Sends an error as the last response of a connection: as the response `target`, or directly to the socket. */
export function sendParserError(
  app: App,
  error: ServiceError,
  socket: Socket,
  target: ServerResponse | 'response',
): void {
  const { headers, body } = app.errorResponse(error, socket);
  const lines = [...headers, 'Connection', 'close'];
  if (target !== 'response') {
    if (!target.headersSent) target.writeHead(error.status, lines).end(body);
    return;
  }
  lines.push('Date', new Date().toUTCString());
  const text = lines.map((part, i) => part + (i % 2 === 0 ? ': ' : '\r\n')).join('');
  socket.write(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${text}\r\n${body}`);
}
