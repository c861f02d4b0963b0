export { AgentTrust, type AgentTrustOptions, type ResponseInfo, responseOf } from './agent-trust.ts';
export type { ByteStream, CallOptions, CreateOptions, List } from './call-options.ts';
export {
  AgentTrustError,
  AuthenticationError,
  ConflictError,
  ConnectionError,
  type ErrorCode,
  ForbiddenError,
  InvalidRequestError,
  NotFoundError,
  PreconditionFailedError,
  RateLimitedError,
  ServiceError,
} from './errors.ts';
export type * from './generated/api.ts';
export {
  type CheckInput,
  type Decision,
  Sidecar,
  type SidecarOptions,
  type Unavailable,
  type UnavailableReason,
} from './sidecar.ts';
