import pytest
from serving import Local, live_server


@pytest.fixture(scope="session")
def service():
    return Local()


@pytest.fixture
def make_service():
    made = []

    def make(**settings):
        made.append(Local(**settings))
        return made[-1]

    yield make
    for service in made:
        service.state.recorder.close()


@pytest.fixture(scope="session")
def live():
    with live_server() as (url, _):
        yield url
