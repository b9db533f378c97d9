import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { App } from '../app.ts';
import { invalidRequest, methodNotAllowed, ServiceError } from '../http-errors.ts';
import { headersTooLarge } from '../request/http-checks.ts';
import { allMethods } from '../route-match.ts';

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
export async function sendParserError(
  app: App,
  error: ServiceError,
  socket: Socket,
  target: ServerResponse | 'response',
): Promise<void> {
  const { status, headers, body } = await app.errorResponse(error, socket);
  const allHeaders = {
    ...headers,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  };
  if (target === 'response') {
    const lines = Object.entries({ ...allHeaders, Date: new Date().toUTCString() }).map((each) =>
      each.join(': '),
    );
    socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
  } else if (!target.headersSent) {
    target.writeHead(status, allHeaders).end(body);
  }
}
