import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { encodeIdempotencyKey } from '../../contract/idempotency-key.ts';
import { API_PREFIX, type Operation, type OperationName, operations } from '../../contract/operations.ts';
import { headerComponents, headersOf } from './headers.ts';
import { description } from './introduction.ts';
import { parameterSchemas, refOf, refTo, schemaComponents, tableEntries } from './schemas.ts';
import { errorWords, operationWords, parameterWords, tags } from './words.ts';

const JSON_TYPE = 'application/json';
const SECURITY_SCHEME = 'apiKey';

export type OpenApiDocument = ReturnType<typeof openApiDocument>;

/** The description of the service in OpenAPI 3.1, made from the contract. */
export function openApiDocument() {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Animal Inventory Service',
      // Of the interface (specification 9), not of this package.
      version: '1.0.0',
      summary: 'The animals of a pet store.',
      description: description(),
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [
      { url: API_PREFIX, description: 'The service that this document came from' },
      environment('Production', 'base_url'),
      environment('Staging', 'staging_url'),
    ],
    security: [{ [SECURITY_SCHEME]: [] }],
    tags: Object.entries(tags).map(([name, words]) => ({ name, description: words })),
    paths: paths(),
    components: {
      schemas: schemaComponents(),
      headers: headerComponents(),
      examples: errorExamples(),
      securitySchemes: {
        [SECURITY_SCHEME]: {
          type: 'http',
          scheme: 'bearer',
          description: 'The API key, as a bearer token.',
        },
      },
    },
  };
}

/** An environment whose address the specification leaves open: a reader fills it in. */
function environment(name: string, variable: string) {
  return {
    url: `{${variable}}`,
    description: name,
    variables: {
      [variable]: {
        default: `https://${name.toLowerCase()}.invalid${API_PREFIX}`,
        description: `The base address of ${name.toLowerCase()}, with the version prefix ${API_PREFIX}`,
      },
    },
  };
}

function paths() {
  const items: Record<string, Record<string, ReturnType<typeof operationObject>>> = {};
  for (const [name, operation] of tableEntries()) {
    items[operation.path] = {
      ...items[operation.path],
      [operation.method.toLowerCase()]: operationObject(name, operation),
    };
  }
  return items;
}

function operationObject(name: OperationName, operation: Operation) {
  const words = operationWords[name];
  const statuses = [operation.success.status, ...operation.errors].sort((a, b) => a - b);
  return {
    operationId: name,
    summary: operation.summary,
    description: [words.description, ...farewell(operation)].join('\n\n'),
    tags: [words.tag],
    ...(operation.deprecated && { deprecated: true }),
    parameters: [
      ...parameterSchemas(operation).map((each) => ({
        ...each,
        description: parameterWords[each.name] ?? '',
      })),
      ...(operation.repeatable ? [] : [idempotencyKey]),
    ],
    ...(operation.body && {
      requestBody: {
        required: true,
        content: { [JSON_TYPE]: { schema: refOf(operation.body), example: words.body } },
      },
    }),
    responses: Object.fromEntries(statuses.map((status) => [String(status), response(name, status)])),
  };
}

function farewell({ deprecated }: Operation): string[] {
  if (deprecated === undefined) return [];
  return [
    `Deprecated: removed on ${deprecated.sunset.toUTCString()}. Use \`GET ${deprecated.successor}\` with a \`status\` filter instead.`,
  ];
}

const idempotencyKey = {
  name: header.idempotencyKey,
  in: 'header',
  required: false,
  description:
    'Names the creation, so that it can be repeated for 24 hours: a quoted string of 1 to 255 ASCII characters, or a bare token.',
  schema: { type: 'string', minLength: 1 },
  example: encodeIdempotencyKey('0b7c1f4e-5a53-4d7e-9c55-5f6f5a3b1c2d'),
} as const;

function response(name: OperationName, status: number) {
  const { success }: Operation = operations[name];
  const words = operationWords[name];
  if (status === success.status) {
    return {
      description: words.success,
      headers: headersOf(name, status),
      content: { [JSON_TYPE]: { schema: refOf(success.body), example: words.example } },
    };
  }
  const codes = codesOf(status);
  return {
    description: codes.map((code) => errorWords[code].when).join(' Or: '),
    headers: headersOf(name, status),
    content: {
      [JSON_TYPE]: {
        schema: refTo('Error'),
        examples: Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  };
}

const allCodes = Object.keys(errorCodes) as ErrorCode[];

const codesOf = (status: number): ErrorCode[] => allCodes.filter((code) => errorCodes[code] === status);

function errorExamples() {
  return Object.fromEntries(
    allCodes.map((code) => {
      const { when, message } = errorWords[code];
      return [code, { summary: when, value: { code, message, status: errorCodes[code] } }];
    }),
  );
}
