"""The loop of an agent that runs untrusted code in a sandbox. It needs `pip install e2b` and the variables of a key.

Nothing that the model proposes is executed on this machine.
"""

import json
from dataclasses import dataclass

from e2b import CommandExitException, Sandbox, TimeoutException

TASK = "What is the sum of the squares of the numbers from 1 to 100?"
MAX_STEPS = 5
CODE_TIMEOUT_SECONDS = 20
SANDBOX_TIMEOUT_SECONDS = 300
"""The sandbox ends after this time even if this program crashes."""
MAX_OUTPUT_BYTES = 4000
"""What the model sees of the output: code can print without end."""
RUN_LIMITED = f"python3 step.py 2>&1 | head -c {MAX_OUTPUT_BYTES}; exit ${{PIPESTATUS[0]}}"


@dataclass
class Step:
    """What was executed, and what came of it."""

    code: str
    output: str


def propose(task: str, steps: list[Step]) -> dict:
    """Return the model's next action: `{"code": …}` or `{"answer": …}`. Replace this with a call of your model.

    This one makes a mistake first, as models do.
    """
    if not steps:
        return {"code": "print(sum(n ** 2 for n in numbers))"}
    if "NameError" in steps[-1].output:
        return {"code": "print(sum(n ** 2 for n in range(1, 101)))"}
    return {"answer": steps[-1].output.strip()}


def execute(sandbox: Sandbox, code: str) -> str:
    """Execute Python code in the sandbox and return what the model is to see of it."""
    sandbox.files.write("step.py", code)
    try:
        result = sandbox.commands.run(RUN_LIMITED, timeout=CODE_TIMEOUT_SECONDS)
        return result.stdout
    except CommandExitException as failure:
        return f"{failure.stdout}\n(exit code {failure.exit_code})"
    except TimeoutException:
        return f"(stopped after {CODE_TIMEOUT_SECONDS} seconds)"


def run_agent(task: str, propose=propose) -> str | None:
    """Let the model act until it answers. Return the answer, or None after too many steps."""
    steps: list[Step] = []
    sandbox = Sandbox.create(timeout=SANDBOX_TIMEOUT_SECONDS)
    try:
        for _number in range(MAX_STEPS):
            action = propose(task, steps)
            if "answer" in action:
                return action["answer"]
            steps.append(Step(action["code"], execute(sandbox, action["code"])))
            print(json.dumps(vars(steps[-1])))
        return None
    finally:
        sandbox.kill()


if __name__ == "__main__":
    print("Answer:", run_agent(TASK))
