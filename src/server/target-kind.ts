import { API_PREFIX } from '../contract/operations.ts';
import type { TargetKind } from './request/context.ts';
import { isToolPath } from './tools/tool-requests.ts';

const UNDER_API = new RegExp(`^${API_PREFIX}(?:[/?]|$)`);
const UNDER_PAGE = /^\/(?:page\/|\?|$)/;

/** Sorts a target, such as `/v1/pets?limit=5`, by its path. */
export function kindOfTarget(target: string): TargetKind {
  if (UNDER_API.test(target)) return 'api';
  if (UNDER_PAGE.test(target)) return 'page';
  const mark = target.indexOf('?');
  const path = mark === -1 ? target : target.slice(0, mark);
  if (isToolPath(path)) return 'tool';
  return path === '/metrics' ? 'metrics' : 'other';
}
