import { Type } from 'typebox';
import { modes } from '../../model/mode.ts';
import { scopes } from '../../model/scopes.ts';
import { ActorAnswer } from '../evidence/audit.ts';
import { nullable, Timestamp } from './fields.ts';

/** `GET /whoami` */
export const WhoAmIAnswer = Type.Object({
  account_id: Type.String(),
  mode: Type.Enum(modes),
  actor: ActorAnswer,
  scopes: Type.Array(Type.Enum(scopes)),
  expires_at: nullable(Timestamp),
});
