import { type Operation, type OperationName, operations } from '../../src/contract/operations.ts';
import { openApiDocument } from '../../src/server/openapi/document.ts';

/** The OpenAPI document of the service after a conversion to JSON and back, as clients get it. */
export const document: ReturnType<typeof openApiDocument> = JSON.parse(JSON.stringify(openApiDocument()));

/** The operations of the contract. */
export const table = Object.entries(operations) as [OperationName, Operation][];

/** The operations of the document, each with its method and path. */
export const described = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...operation })),
);

/** The operation of the document with this operationId. */
export const describedAs = (name: OperationName) => {
  const found = described.find(({ operationId }) => operationId === name);
  if (!found) throw new Error(`${name} is not described`);
  return found;
};
