"""The CPU topology that an instance's guest sees."""

from marshmallow import fields

from panel.schemas.base import In, Int, Out, describe


class TopologyIn(In):
    sockets = Int(1, 64, required=True, **describe("Number of sockets.", 1))
    cores = Int(1, 256, required=True, **describe("Cores per socket.", 2))
    threads = Int(1, 8, load_default=1, **describe("Threads per core.", 1))


class TopologyOut(Out):
    sockets = fields.Integer(**describe("Number of sockets.", 1))
    cores = fields.Integer(**describe("Cores per socket.", 2))
    threads = fields.Integer(**describe("Threads per core.", 1))
