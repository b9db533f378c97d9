import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { encodeIdempotencyKey } from '../../contract/idempotency-key.ts';
import { API_PREFIX, type Operation, type OperationName, operations } from '../../contract/operations.ts';
import {
  deprecationNote,
  errorDescriptions,
  operationDescriptions,
  parameterDescriptions,
  tagDescriptions,
} from './descriptions.ts';
import { headerComponents, headersOf } from './headers.ts';
import { introduction } from './introduction.ts';
import { parameterSchemas, refOf, refTo, schemaComponents, tableEntries } from './schemas.ts';

const JSON_TYPE = 'application/json';
const SECURITY_SCHEME = 'apiKey';

export type OpenApiDocument = ReturnType<typeof openApiDocument>;

/** The OpenAPI 3.1 description of the service, generated from the contract. */
export function openApiDocument() {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Animal Inventory Service',
      // The version of the interface (docs/service.md 9), not of this package.
      version: '1.0.0',
      summary: 'The animals of a pet store.',
      description: introduction(),
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: openApiServers(API_PREFIX),
    security: [{ [SECURITY_SCHEME]: [] }],
    tags: Object.entries(tagDescriptions).map(([name, description]) => ({ name, description })),
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

/** The servers of the document. Generated clients use the first one by default: the base URL of this service. */
export const openApiServers = (baseUrl: string) => [
  { url: baseUrl, description: 'This service' },
  environment('Production', 'base_url'),
  environment('Staging', 'staging_url'),
];

/** An environment whose address is not known. Readers of the document enter the address as the value of `variable`. */
function environment(name: string, variable: string) {
  return {
    url: `{${variable}}`,
    description: name,
    variables: {
      [variable]: {
        default: `https://${name.toLowerCase()}.invalid${API_PREFIX}`,
        description: `The base URL of ${name.toLowerCase()}, including ${API_PREFIX}`,
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
  const { tag, description, body } = operationDescriptions[name];
  const statuses = [operation.success.status, ...operation.errors].sort((a, b) => a - b);
  return {
    operationId: name,
    summary: operation.summary,
    description: [description, ...deprecationNote(operation)].join('\n\n'),
    tags: [tag],
    ...(operation.deprecated && { deprecated: true }),
    parameters: [
      ...parameterSchemas(operation).map((parameter) => {
        const { schema, ...more } = parameterDescriptions[parameter.name] ?? {};
        return { ...parameter, schema: { ...parameter.schema, ...schema }, ...more };
      }),
      ...(operation.acceptsIdempotencyKey ? [idempotencyKey] : []),
    ],
    ...(operation.body && {
      requestBody: {
        required: true,
        content: { [JSON_TYPE]: { schema: refOf(operation.body), example: body } },
      },
    }),
    responses: Object.fromEntries(statuses.map((status) => [String(status), response(name, status)])),
  };
}

const idempotencyKey = {
  name: header.idempotencyKey,
  in: 'header',
  required: false,
  description:
    'Makes the creation safe to repeat for 24 hours: 1 to 255 printable ASCII characters, as a quoted string or a bare token.',
  schema: { type: 'string', minLength: 1 },
  example: encodeIdempotencyKey('0b7c1f4e-5a53-4d7e-9c55-5f6f5a3b1c2d'),
} as const;

function response(name: OperationName, status: number) {
  const operation: Operation = operations[name];
  const { success } = operation;
  const { success: successDescription, example } = operationDescriptions[name];
  const isSuccess = status === success.status;
  const codes = codesOf(status);
  const examples = codes.map((code) => [code, { $ref: `#/components/examples/${code}` }]);
  return {
    description: isSuccess ? successDescription : codes.map((code) => errorDescriptions[code]).join(' Or: '),
    headers: headersOf(name, status),
    content: {
      [JSON_TYPE]: isSuccess
        ? { schema: refOf(success.body), example }
        : { schema: refTo('Error'), examples: Object.fromEntries(examples) },
    },
  };
}

/** The codes of the operations. Only the developer tools have others. */
const allCodes = (Object.keys(errorCodes) as ErrorCode[]).filter((code) =>
  Object.values<Operation>(operations).some(({ errors }) => errors.includes(errorCodes[code])),
);

const codesOf = (status: number): ErrorCode[] => allCodes.filter((code) => errorCodes[code] === status);

function errorExamples() {
  return Object.fromEntries(
    allCodes.map((code) => {
      const summary = errorDescriptions[code];
      const message = summary.replace(/\.$/, '');
      return [code, { summary, value: { code, message, status: errorCodes[code] } }];
    }),
  );
}
