import type { FastifyReply } from 'fastify';

/**
 * The specified error body, with a code and members for our own programs only; not in the public catalogue.
 */
export function refuse(
  reply: FastifyReply,
  status: number,
  code: string,
  message: string,
  details: object = {},
): FastifyReply {
  return reply
    .code(status)
    .send({ error: { code, message, status, request_id: reply.request.id, ...details } });
}

/** The database was probably restored: the sidecar reconnects and continues. */
export const refuseUnknownConnection = (reply: FastifyReply): FastifyReply =>
  refuse(reply, 409, 'connection_unknown', 'This connection is unknown, or known no longer: connect again.');

export const refuseSupersededConnection = (reply: FastifyReply): FastifyReply =>
  refuse(reply, 409, 'connection_superseded', 'This is not the newest connection of the sidecar.');
