"""The CPU topology that an instance's guest sees."""

from marshmallow import fields

from panel.schemas.base import In, Int, Out, about


class TopologyIn(In):
    sockets = Int(1, 64, required=True, **about("Processors.", 1))
    cores = Int(1, 256, required=True, **about("Cores of each processor.", 2))
    threads = Int(1, 8, load_default=1, **about("Threads of each core.", 1))


class TopologyOut(Out):
    sockets = fields.Integer(**about("Processors.", 1))
    cores = fields.Integer(**about("Cores of each processor.", 2))
    threads = fields.Integer(**about("Threads of each core.", 1))
